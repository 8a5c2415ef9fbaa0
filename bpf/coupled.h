/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LIA (RFC 6356), OLIA (Khalili et al., "MPTCP is not Pareto-optimal") and BALIA (Peng et al.;
 * draft-walid-mptcp-congestion-control), each as the increase per acknowledged segment. BALIA's
 * decrease depends on the siblings too.
 *
 * The rules use rates w/rtt and w/rtt^2 only in ratios, so everything is relative to the longest
 * round-trip time R: y = w R/rtt and z = w (R/rtt)^2. Example: two subflows of 10 segments with 20
 * and 80 ms have y = 40 and 10, z = 160 and 10.
 * The increase is computed sixteen times per round trip and is constant in between.
 */
#ifndef TRIBUTARY_COUPLED_H
#define TRIBUTARY_COUPLED_H

#include "group.h"

/* Lower limit of a round-trip time: R / 1024. */
#define MAX_RATIO_Q16 (1ULL << 26)
/* Upper limit of l: 8 GiB. */
#define MAX_TRANSIT (1ULL << 33)

enum { LIA, OLIA, BALIA };

/* One subflow, or a sum or maximum over all of them. */
struct measure {
	__u64 window; /* Q16 segments */
	__u64 y;      /* Q8 segments */
	__u64 z;      /* Q8 segments */
	__u64 quality; /* OLIA's l R^2/rtt^2 */
};

struct view {
	struct measure own, most;
	__u64 sum_y;
	__u64 count;
};

/* 1 when the slot has a round-trip time. */
static __always_inline __u64 is_known(const struct slot *slot)
{
	return less_u63(0, slot->rtt);
}

/* All zero for a slot without a round-trip time. `mss`: count windows in segments of this size. */
static __always_inline struct measure measure(const struct slot *slot, __u64 longest, __u32 mss)
{
	__u64 ratio = min_u63(div_u64(longest << 16, slot->rtt), MAX_RATIO_Q16);
	__u64 window = min_u63(slot->window >> 8, MAX_SEGMENTS << 8);
	__u64 transit = min_u63(slot->transit, MAX_TRANSIT);
	struct measure m;

	if (mss)
		window = min_u63(div_u64(window * slot->mss, mss), MAX_SEGMENTS << 8);
	m.window = slot->window & -is_known(slot);
	m.y = window * ratio >> 16;
	m.z = m.y * ratio >> 16;
	m.quality = (transit * (ratio >> 6) >> 10) * (ratio >> 6);
	return m;
}

static __always_inline struct view view_of(const struct slot all[MAX_MEMBERS], __u32 at, __u32 mss)
{
	struct view view = {};
	__u64 longest = 0;

	for (int i = 0; i < MAX_MEMBERS; i++)
		longest = max_u63(longest, all[i].rtt);
	for (int i = 0; i < MAX_MEMBERS; i++) {
		struct measure m = measure(&all[i], longest, mss);

		view.most.window = max_u63(view.most.window, m.window);
		view.most.y = max_u63(view.most.y, m.y);
		view.most.z = max_u63(view.most.z, m.z);
		view.most.quality = max_u63(view.most.quality, m.quality);
		view.sum_y += m.y;
		view.count += is_known(&all[i]);
	}
	view.own = measure(&all[at & (MAX_MEMBERS - 1)], longest, mss);
	return view;
}

/* z / (sum of y)^2, Q32: in segments per acknowledged segment. */
static __always_inline __u64 over_square(__u64 z, __u64 sum_y)
{
	__u64 part = div_u64(z << 15, sum_y);

	return div_u64(part << 25, sum_y);
}

/* RFC 6356 section 3: the smaller of max z / (sum y)^2 and Reno's 1/w. */
static __always_inline __s64 lia_increase(const struct view *view, __s64 reno)
{
	return min_u64(over_square(view->most.z, view->sum_y), reno);
}

/* OLIA's alpha over the window, Q32: shifts window from the largest subflows to the best. */
static __always_inline __s64 olia_shift(const struct slot all[MAX_MEMBERS], const struct view *view)
{
	__u64 longest = 0, better = 0, largest = 0, each, own_largest, own_better;

	for (int i = 0; i < MAX_MEMBERS; i++)
		longest = max_u63(longest, all[i].rtt);
	for (int i = 0; i < MAX_MEMBERS; i++) {
		struct measure m = measure(&all[i], longest, 0);
		__u64 smaller = less_u63(m.window, view->most.window);
		__u64 worse = less_u63(m.quality, view->most.quality);

		largest += is_known(&all[i]) & ~smaller;
		better += is_known(&all[i]) & ~worse & smaller;
	}
	own_largest = view->own.window >= view->most.window;
	own_better = (view->own.quality >= view->most.quality) & !own_largest;
	if (!better || !(own_largest | own_better))
		return 0;
	each = div_u64(ONE_Q32, view->count * (own_largest ? largest : better));
	each = div_u64(each << 16, view->own.window);
	return own_largest ? -(__s64)each : (__s64)each;
}

/* (x + max)(4x + max) / (10 w (sum x)^2). */
static __always_inline __s64 balia_increase(const struct view *view)
{
	__u64 a = div_u64((view->own.y + view->most.y) << 16, view->sum_y);
	__u64 b = div_u64((4 * view->own.y + view->most.y) << 16, view->sum_y);

	return div_u64(a * b << 16, 10 * view->own.window);
}

/* Publishes the socket's window to its siblings and computes its increase. */
static __noinline int refresh(struct sock *sk, int rule)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	__s64 increase = reno_increase(tp, flow);
	struct slot own = own_slot(tp, flow);
	struct slot all[MAX_MEMBERS];
	__u32 at = exchange(&own, flow, all);

	if (tp->srtt_us) {
		struct view view = view_of(all, at, rule == LIA ? tp->mss_cache : 0);

		if (rule == LIA)
			increase = lia_increase(&view, increase);
		else if (rule == OLIA)
			increase = over_square(view.own.z, view.sum_y) + olia_shift(all, &view);
		else
			increase = balia_increase(&view);
	}
	flow->increase = increase;
	flow->pending = tp->snd_cwnd >> 4;
	return 0;
}

static __always_inline void coupled_cong_avoid(struct sock *sk, __u32 acked, int rule)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (flow->pending < acked) {
		if (!flow->owner)
			join(sk);
		refresh(sk, rule);
	} else {
		flow->pending -= acked;
	}
	if (!cwnd_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = slow_start(tp, acked);
		if (!acked)
			return;
	}
	grow(tp, flow, flow->increase * (__s64)min_u64(acked, tp->snd_cwnd));
}

/* BALIA: part of the window given up after a loss, min(max x / x, 1.5) / 2, Q16. */
static __noinline int balia_decrease(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct slot own = own_slot(tp, flow);
	struct slot all[MAX_MEMBERS];
	__u32 at = exchange(&own, flow, all);
	struct view view;

	if (!tp->srtt_us)
		return ONE_Q16 / 2;
	view = view_of(all, at, 0);
	return min_u64(div_u64(view.most.y << 16, view.own.y), ONE_Q16 * 3 / 2) / 2;
}

/* The window after a loss. The flow keeps the remaining part of a segment. */
static __always_inline __u32 coupled_ssthresh(struct sock *sk, int rule)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	__u64 given_up = rule == BALIA ? balia_decrease(sk) : ONE_Q16 / 2;
	__u64 window = window_q32(tp, flow), kept;

	note_loss(tp, flow);
	kept = window - (window >> 16) * given_up;
	tell(sk, kept >> 16);
	return reduce_to(flow, kept);
}

static __always_inline void coupled_set_state(struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	flow->state = state;
	if (state == CA_LOSS) {
		note_loss(tcp_sk(sk), flow);
		flow->pending = 0;
		tell(sk, (__u64)tcp_sk(sk)->snd_cwnd << 16);
	}
}

/* In recovery the kernel does not call cong_avoid, so the round-trip time is published here. */
static __always_inline void coupled_pkts_acked(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (flow->state != CA_CWR && flow->state != CA_RECOVERY)
		return;
	if (flow->pending < acked) {
		tell(sk, window_q32(tp, flow) >> 16);
		flow->pending = tp->snd_cwnd >> 4;
	} else {
		flow->pending -= acked;
	}
}

#endif
