// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Congestion controllers for the TCP of an unmodified Linux kernel: Compound, LIA, OLIA, BALIA and
 * wVegas. Sources and behaviour: docs/models/congestion.md; use: docs/guide/congestion-control.md.
 */
#include "kernel.h"

#include "controllers.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
