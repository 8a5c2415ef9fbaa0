/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * User-space versions of the kernel functions that the controllers call: one map of groups, and locks
 * without contention. With them, tests run the controllers' code without privileges.
 */
#ifndef TRIBUTARY_REPLAY_H
#define TRIBUTARY_REPLAY_H

#define SEC(name)
#define BPF_PROG(name, args...) name(args)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline, unused))
#define __noinline __attribute__((noinline, unused))

struct sock;
struct group_key;
struct group;

extern char trib_groups;

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
long bpf_map_delete_elem(void *map, const void *key);
__u32 bpf_get_prandom_u32(void);
__u32 mptcp_token(struct sock *sk);
__u64 net_cookie(struct sock *sk);

static inline void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	lock->val = 1;
}

static inline void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	lock->val = 0;
}

#define is_cwnd_limited_bit(tp) ((tp)->is_cwnd_limited)

/* `a / b`; zero when `b` is zero. */
static __always_inline __u64 div_u64(__u64 a, __u64 b)
{
	return b ? a / b : 0;
}

#endif
