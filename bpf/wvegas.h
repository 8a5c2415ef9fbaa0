/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * wVegas (Cao, Xu, Fu, "Delay-based congestion control for multipath TCP";
 * draft-xu-mptcp-congestion-control): the subflows of a group keep ten segments in queues together,
 * each a share in proportion to its rate. It decides once per round trip; a loss halves the window.
 */
#ifndef TRIBUTARY_WVEGAS_H
#define TRIBUTARY_WVEGAS_H

#include "coupled.h"

#define TOTAL_ALPHA (10 * ONE_Q16)
#define LEAST_ALPHA (2 * ONE_Q16)
/* Segments in the queue that end slow start. */
#define WVEGAS_GAMMA ONE_Q16
/* In a round with fewer samples than this the window grows as Reno's. */
#define WVEGAS_SAMPLES 3

/* The queues are unknown after recovery or idle time. */
static __always_inline void wvegas_forget(struct wvegas *w)
{
	w->alpha = LEAST_ALPHA;
	w->least_delay = 0;
	w->rtt_sum = 0;
	w->rtt_count = 0;
	w->round_ended = 0;
}

/* This subflow's share of the segments in queues, by its rate, Q16. */
static __noinline int wvegas_share(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct slot own = own_slot(tp, flow);
	struct slot all[MAX_MEMBERS];
	__u32 at = exchange(&own, flow, all);
	struct view view;

	if (!tp->srtt_us)
		return TOTAL_ALPHA;
	view = view_of(all, at, tp->mss_cache);
	return max_u64(div_u64(view.own.y * TOTAL_ALPHA, view.sum_y), LEAST_ALPHA);
}

/* Slow start ends when more than one segment is in the queue. */
static __always_inline void wvegas_leave_slow_start(struct tcp_sock *tp, struct flow *flow, __u64 ratio)
{
	__u64 window = window_q32(tp, flow);
	__u64 fits = (window >> 24) * ratio + ONE_Q32;

	set_window_q32(tp, flow, max_u64(min_u64(window, fits), 2 * ONE_Q32));
	tp->snd_ssthresh = min_u64(tp->snd_ssthresh, tp->snd_cwnd);
}

/* From twice the minimum queueing delay on, drains the standing queue, to measure the base again. */
static __always_inline void wvegas_drain(struct tcp_sock *tp, struct flow *flow, __u64 delay, __u64 ratio)
{
	struct wvegas *w = &flow->wvegas;

	if (!delay)
		return;
	if (!w->least_delay || delay < w->least_delay)
		w->least_delay = delay;
	if (delay >= 2ULL * w->least_delay) {
		set_window_q32(tp, flow, max_u64((window_q32(tp, flow) >> 25) * ratio, 2 * ONE_Q32));
		w->least_delay = 0;
	}
}

/* The end of a round with mean `rtt` on a path with minimum `base` (both 1/256 us). */
static __always_inline void wvegas_judge(struct sock *sk, __u64 base, __u64 rtt)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct wvegas *w = &flow->wvegas;
	__u64 ratio = div_u64(base << 24, rtt); /* Q24, at most 1 */
	__u64 queued = (window_q32(tp, flow) >> 24) * ((1 << 24) - ratio) >> 16;

	if (tp->snd_cwnd < tp->snd_ssthresh) {
		if (queued > WVEGAS_GAMMA)
			wvegas_leave_slow_start(tp, flow, ratio);
		return;
	}
	if (queued >= w->alpha)
		w->alpha = wvegas_share(sk);
	if (queued > w->alpha) {
		grow(tp, flow, -(__s64)ONE_Q32);
		tp->snd_ssthresh = min_u64(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (queued < w->alpha) {
		grow(tp, flow, ONE_Q32);
	}
	wvegas_drain(tp, flow, rtt - base, ratio);
	tp->snd_ssthresh = max_u64(tp->snd_ssthresh, tp->snd_cwnd / 4 * 3);
}

static __always_inline void wvegas_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct wvegas *w = &flow_of(sk)->wvegas;
	__u8 state = flow_of(sk)->state;

	coupled_pkts_acked(sk, sample->pkts_acked);
	if (state == CA_CWR || state == CA_RECOVERY) {
		w->rtt_sum = 0;
		w->rtt_count = 0;
	} else if (sample->rtt_us > 0) {
		w->rtt_sum += sample->rtt_us;
		w->rtt_count++;
	}
	w->round_ended |= round_passed(tcp_sk(sk), &w->round_end);
}

static __always_inline void wvegas_grow_as_reno(struct tcp_sock *tp, struct flow *flow, __u32 acked)
{
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = slow_start(tp, acked);
	grow(tp, flow, reno_increase(tp, flow) * min_u64(acked, tp->snd_cwnd));
}

static __always_inline void wvegas_cong_avoid(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct wvegas *w = &flow->wvegas;
	int slow = tp->snd_cwnd < tp->snd_ssthresh;
	__u64 rtt, base;

	if (flow->pending < acked) {
		if (!flow->owner)
			join(sk);
		tell(sk, window_q32(tp, flow) >> 16);
		flow->pending = tp->snd_cwnd >> 4;
	} else {
		flow->pending -= acked;
	}
	if (!cwnd_limited(tp))
		return;
	if (w->round_ended) {
		rtt = div_u64(min_u64(w->rtt_sum, 1ULL << 55) << 8, w->rtt_count);
		base = min_u64((__u64)tp->rtt_min.s[0].v << 8, rtt);
		w->round_ended = 0;
		if (w->rtt_count < WVEGAS_SAMPLES)
			wvegas_grow_as_reno(tp, flow, acked);
		else
			wvegas_judge(sk, base, rtt);
		slow = slow && w->rtt_count >= WVEGAS_SAMPLES;
		w->rtt_sum = 0;
		w->rtt_count = 0;
	}
	if (slow && tp->snd_cwnd < tp->snd_ssthresh)
		slow_start(tp, acked);
}

static __always_inline __u32 wvegas_ssthresh(struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	__u64 kept = window_q32(tcp_sk(sk), flow) / 2;

	wvegas_forget(&flow->wvegas);
	tell(sk, kept >> 16);
	return reduce_to(flow, kept);
}

static __always_inline void wvegas_set_state(struct sock *sk, __u8 state)
{
	struct flow *flow = flow_of(sk);

	if (state == CA_OPEN && flow->state > CA_OPEN)
		wvegas_forget(&flow->wvegas);
	if (state == CA_LOSS)
		wvegas_forget(&flow->wvegas);
	flow->state = state;
}

static __always_inline void wvegas_cwnd_event(struct sock *sk, int event)
{
	if (event == EVENT_CWND_RESTART)
		wvegas_forget(&flow_of(sk)->wvegas);
}

#endif
