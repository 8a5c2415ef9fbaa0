/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The state of every controller for a socket, and access to the socket's window.
 */
#ifndef TRIBUTARY_FLOW_H
#define TRIBUTARY_FLOW_H

#include "fixed.h"

/* Values of the kernel's enum tcp_ca_state and enum tcp_ca_event (net/tcp.h, uapi/linux/tcp.h). */
enum { CA_OPEN = 0, CA_CWR = 2, CA_RECOVERY = 3, CA_LOSS = 4 };
enum { EVENT_CWND_RESTART = 1 };

/* Upper limits: 2^20 segments for a window, 8 s for a round-trip time. */
#define MAX_SEGMENTS (1ULL << 20)

/* Compound's own state. */
struct compound {
	__u64 loss_window;  /* Q32 segments */
	__u64 delay_window; /* Q32 segments */
	__u64 loss_before;  /* both before the last reduction */
	__u64 delay_before;
	__u64 rtt_sum;      /* of the round, us */
	__u32 rtt_count;
	__u32 written;      /* last window written here; another value: the kernel changed it */
	__u32 round_end;    /* sequence number */
	__u8 round_ended;
};

/* wVegas' own state. */
struct wvegas {
	__u64 rtt_sum; /* of the round, us */
	__u32 rtt_count;
	__u32 alpha;       /* segments this subflow keeps in queues, Q16 */
	__u32 least_delay; /* minimum queueing delay, 1/256 us; zero: none */
	__u32 round_end;   /* sequence number */
	__u8 round_ended;
};

/* Stored in icsk_ca_priv: at most 104 bytes, initially zero. */
struct flow {
	__u64 group_id;
	__u64 group_net;
	__u32 owner; /* mark of the slot in the group; zero: not in a group */
	__u8 group_kind;
	__u8 slot;
	__u8 state; /* the kernel's recovery state */
	__u8 fraction_before; /* `fraction` before the last reduction, Q8 */
	__s64 increase; /* Q32 segments of window per acknowledged segment */
	__u32 fraction; /* Q32 part of a segment that is not in the window yet */
	__u32 pending;  /* segments still to be acknowledged before `increase` is computed again */
	__u32 delivered_at_loss;
	__u32 between_losses; /* segments delivered between the last two losses */
	union {
		struct compound compound;
		struct wvegas wvegas;
	};
};

_Static_assert(sizeof(struct flow) <= 104, "a flow fits into icsk_ca_priv");

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return (struct flow *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* The kernel's tcp_is_cwnd_limited. */
static __always_inline int cwnd_limited(struct tcp_sock *tp)
{
	if (is_cwnd_limited_bit(tp))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void set_cwnd(struct tcp_sock *tp, __u64 segments)
{
	tp->snd_cwnd = min_u64(max_u64(segments, 1), tp->snd_cwnd_clamp);
}

/* The window, including the part of a segment that is not in snd_cwnd, Q32. */
static __always_inline __u64 window_q32(struct tcp_sock *tp, struct flow *flow)
{
	return ((__u64)tp->snd_cwnd << 32) | flow->fraction;
}

/*
 * Slow start by `acked` segments, up to the threshold (the kernel's tcp_slow_start); returns the
 * remaining segments for congestion avoidance.
 */
static __always_inline __u32 slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = min_u64((__u64)tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= cwnd - tp->snd_cwnd;
	set_cwnd(tp, cwnd);
	return acked;
}

/* Adds Q32 segments, which may be negative. Lower limit: two segments, or a smaller window. */
static __always_inline void grow(struct tcp_sock *tp, struct flow *flow, __s64 amount)
{
	__s64 sum = (__s64)flow->fraction + amount;
	__s64 floor = min_u64(tp->snd_cwnd, 2);
	__s64 cwnd = (__s64)tp->snd_cwnd + (sum >> 32);

	flow->fraction = (__u32)sum;
	set_cwnd(tp, cwnd < floor ? floor : cwnd);
}

/* Reno's increase per acknowledged segment, Q32. */
static __always_inline __s64 reno_increase(struct tcp_sock *tp, struct flow *flow)
{
	__u64 window = window_q32(tp, flow) >> 8;

	return div_u64(1ULL << 56, window);
}

/* Segments delivered since the last loss. */
static __always_inline __u32 since_loss(struct tcp_sock *tp, struct flow *flow)
{
	return tp->delivered - flow->delivered_at_loss;
}

/* A loss: the segments delivered since the last loss become those between the last two. */
static __always_inline void note_loss(struct tcp_sock *tp, struct flow *flow)
{
	__u32 since = since_loss(tp, flow);

	if (since) {
		flow->between_losses = since;
		flow->delivered_at_loss = tp->delivered;
	}
}

/* Sets the window to Q32 segments. */
static __always_inline void set_window_q32(struct tcp_sock *tp, struct flow *flow, __u64 window)
{
	flow->fraction = (__u32)window;
	set_cwnd(tp, window >> 32);
}

/*
 * The window after a loss: `kept`, Q32, at least two segments. The flow keeps the part of a segment,
 * because the kernel's window has whole segments.
 */
static __always_inline __u32 reduce_to(struct flow *flow, __u64 kept)
{
	kept = max_u64(kept, 2 * ONE_Q32);
	flow->fraction_before = flow->fraction >> 24;
	flow->fraction = (__u32)kept;
	flow->pending = 0;
	return kept >> 32;
}

/* The kernel's tcp_reno_undo_cwnd, with the part of a segment. */
static __always_inline __u32 undo(struct tcp_sock *tp, struct flow *flow)
{
	flow->pending = 0;
	if (tp->prior_cwnd >= tp->snd_cwnd)
		flow->fraction = (__u32)flow->fraction_before << 24;
	return max_u64(tp->snd_cwnd, tp->prior_cwnd);
}

/*
 * Returns whether `snd_una` has passed the end of the round, and if so begins the next round.
 */
static __always_inline int round_passed(struct tcp_sock *tp, __u32 *round_end)
{
	if ((__s32)(tp->snd_una - *round_end) <= 0)
		return 0;
	*round_end = tp->snd_nxt;
	return 1;
}

#endif
