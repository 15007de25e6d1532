#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"

/* The built-in backends; their files lie below this folder and are known here by name alone. */
extern const neap_backend_vtable neap__cpu_backend;
extern const neap_backend_vtable neap__null_backend;

static const neap_backend_vtable *const built_in[] = {&neap__cpu_backend, &neap__null_backend};

#define LONGEST_NAME 32
#define MOST_DEVICES 1024

/* Backends that come as a library of their own, loaded when first asked for. */
typedef struct plugin {
  const char *name, *title;
} plugin;
static const plugin plugins[] = {{"cuda", "CUDA"}};

/* A library's vtable is asked for here; the answer says why there is none. */
static neap_status find_plugin(const char *name, const neap_backend_vtable **out, neap_error *err) {
  *out = NULL;
  for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++)
    if (!strcmp(name, plugins[i].name))
      return neap__fail(err, NEAP_DEVICE, "device '%s': the %s backend library was not found", name, plugins[i].title);
  return neap__fail(err, NEAP_NOT_FOUND, "device '%s' is unknown; expected auto, cpu, null or cuda", name);
}

static neap_status find(const char *name, const neap_backend_vtable **out, neap_error *err) {
  for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++)
    if (!strcmp(name, built_in[i]->name)) {
      *out = built_in[i];
      return NEAP_OK;
    }
  return find_plugin(name, out, err);
}

/* "cuda:1" -> "cuda", 1. name has room for LONGEST_NAME and the end. */
static neap_status parse(const char *device, char *name, int *index, neap_error *err) {
  const char *colon = strchr(device, ':');
  const size_t length = colon ? (size_t)(colon - device) : strlen(device);
  char *end = NULL;
  long number = 0;
  if (length == 0 || length > LONGEST_NAME)
    return neap__fail(err, NEAP_NOT_FOUND, "device '%.64s' is unknown; expected auto, cpu, null or cuda", device);
  memcpy(name, device, length);
  name[length] = '\0';
  if (colon) {
    number = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || number >= MOST_DEVICES)
      return neap__fail(err, NEAP_RANGE, "device '%.64s': expected a number from 0 to %d after the colon", device,
                        MOST_DEVICES - 1);
  }
  *index = (int)number;
  return NEAP_OK;
}

neap_status neap__backend_open(const char *device, const neap_backend_config *c, neap_backend **out, neap_error *err) {
  char name[LONGEST_NAME + 1];
  const neap_backend_vtable *vt = NULL;
  neap_backend_config config = *c;
  neap_status s;
  *out = NULL;
  if (!device || !*device) device = "auto";
  s = parse(device, name, &config.device, err);
  if (s) return s;
  s = find(strcmp(name, "auto") ? name : "cpu", &vt, err);
  if (s) return s;
  if (vt->version != NEAP_BACKEND_VERSION)
    return neap__fail(err, NEAP_DEVICE, "device '%s': its backend has version %u, this engine expects %u", name,
                      vt->version, NEAP_BACKEND_VERSION);
  return vt->open(&config, out, err);
}

void neap__backend_close(neap_backend *b) {
  if (b) b->vt->close(b);
}
