// The compiler's x86 vector intrinsics, without GCC 12's false alarms inside its AVX-512 headers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Their _mm512_undefined_ps() is "__Y = __Y" (GCC bug 105593): a warning at every use, and -Werror.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
