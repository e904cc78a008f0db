/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's names in kernel/events/gate/split.h, as far as a model needs them to include
 * it. The <linux/...> that it includes are empty files.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t u64;

#ifndef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#endif

#include "gate/split.h"
