/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parts of the kernel's structures that the controllers read or write, for CO-RE: libbpf finds
 * the real offsets in the running kernel's BTF. Only names and types must agree with the kernel.
 */
#ifndef TRIBUTARY_KERNEL_H
#define TRIBUTARY_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* Values of enum bpf_map_type (uapi/linux/bpf.h). */
enum { BPF_MAP_TYPE_HASH = 1 };
enum { BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };

struct bpf_spin_lock {
	__u32 val;
};

#ifdef TRIBUTARY_REPLAY
#include "replay.h"
#else
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

typedef struct {
	__u32 val;
} kuid_t;

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	__u32 sk_mark;
	kuid_t sk_uid;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	void *icsk_ulp_data;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 max_packets_out;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 delivered;
	__u32 snd_una;
	__u32 snd_nxt;
	struct minmax rtt_min;
	__u8 is_cwnd_limited : 1;
	_Bool is_mptcp;
};

struct mptcp_subflow_context {
	__u32 token;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#ifndef TRIBUTARY_REPLAY
#pragma clang attribute pop

#define is_cwnd_limited_bit(tp) BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)

/* `a / b`; zero when `b` is zero, as BPF defines it. In C it is undefined, and a test would be a branch. */
static __always_inline __u64 div_u64(__u64 a, __u64 b)
{
	asm("%0 /= %1" : "+r"(a) : "r"(b));
	return a;
}
#endif

#endif
