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


def main():
    case, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, x, y = {"policy": policy, "mlp": mlp, "cnn": cnn}[case]()
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
