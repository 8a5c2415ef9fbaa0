/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Fixed-point arithmetic. `Qn` means a value times 2^n: windows are in segments, Q8, Q16 or Q32.
 * Code that runs once per sibling has no branch that depends on data: the kernel's verifier follows
 * every branch in every iteration of a loop.
 */
#ifndef TRIBUTARY_FIXED_H
#define TRIBUTARY_FIXED_H

#define ONE_Q16 (1ULL << 16)
#define ONE_Q32 (1ULL << 32)

/* 1 when a < b, both below 2^63; without a branch. */
static __always_inline __u64 less_u63(__u64 a, __u64 b)
{
	return (a - b) >> 63;
}

/* The larger, both below 2^63; without a branch. */
static __always_inline __u64 max_u63(__u64 a, __u64 b)
{
	return a ^ ((a ^ b) & -less_u63(a, b));
}

/* The smaller, both below 2^63; without a branch. */
static __always_inline __u64 min_u63(__u64 a, __u64 b)
{
	return b ^ ((a ^ b) & -less_u63(a, b));
}

static __always_inline __u64 min_u64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* Bits of `n` without leading zeros. (clang 14 cannot compile __builtin_clzll for BPF.) */
static __always_inline __u64 bits_u64(__u64 n)
{
	__u64 bits = 0;

	for (int step = 32; step; step >>= 1) {
		__u64 shift = n >> step ? step : 0;

		n >>= shift;
		bits += shift;
	}
	return bits + n;
}

/* One step of Newton's method towards the square root of `n`. */
#define SQRT_STEP(x, n) ((x) = ((x) + (n) / (x)) >> 1)

/*
 * Square root, to one unit. The first guess, the power of two above the root, is at most twice it;
 * Newton's method then doubles the number of right digits at each step.
 */
static __always_inline __u64 sqrt_u64(__u64 n)
{
	__u64 x = 1ULL << ((bits_u64(n) + 1) >> 1);

	SQRT_STEP(x, n);
	SQRT_STEP(x, n);
	SQRT_STEP(x, n);
	SQRT_STEP(x, n);
	SQRT_STEP(x, n);
	SQRT_STEP(x, n);
	return x;
}

#endif
