/* Any machine with a compiler that knows vector types; SSE2 on x86, NEON on ARM. */
#define VARIANT_NAME elmo_portable
#define VARIANT_LABEL "portable"
#include "variant.h"
