"""The same training step in PyTorch (eager). Prints the median seconds of a step.

usage: peer_torch.py CASE THREADS STEPS
"""
import statistics
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


def policy():
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    return model, torch.randn(32, 4), torch.randint(0, 2, (32,))


def mlp():
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, torch.randn(64, 784), torch.randint(0, 10, (64,))


class DigitsCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.fc1 = nn.Linear(32 * 24 * 24, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def cnn():
    return DigitsCnn(), torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def attend(self, x):
        n, length, d = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(n, length, d))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, d, heads, layers, context):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.randn(context, d) * 0.02)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, x):
        return self.head(self.ln(self.blocks(self.tok(x) + self.pos))).flatten(0, 1)


class LstmLm(nn.Module):
    def __init__(self, vocab, d, layers):
        super().__init__()
        self.tok, self.lstm = nn.Embedding(vocab, d), nn.LSTM(d, d, layers, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        return self.head(self.lstm(self.tok(x))[0]).flatten(0, 1)


def tokens(n, length):
    return torch.randint(0, 65, (n, length)), torch.randint(0, 65, (n * length,))


def gpt():
    return Gpt(65, 128, 4, 4, 64), *tokens(32, 64)


def lstm():
    return LstmLm(65, 128, 2), *tokens(32, 64)


def main():
    case, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, x, y = {"policy": policy, "mlp": mlp, "cnn": cnn, "gpt": gpt, "lstm": lstm}[case]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(steps):
        t0 = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - t0)
    print(repr(statistics.median(times[steps // 4:])))


main()
