#include "memory/resource.h"

const char *neap__owner_name(neap_owner owner) {
  static const char *const names[] = {
#define XX(upper, lower) #lower,
      NEAP_OWNER_MAP(XX)
#undef XX
  };
  return (unsigned)owner < NEAP_OWNER_COUNT ? names[owner] : "unknown";
}
