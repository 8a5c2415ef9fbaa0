/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compound TCP (draft-sridharan-tcpm-ctcp-02): Reno's window plus one that follows the queueing delay.
 * It is not coupled. The delay window does not change in slow start and is zero after a timeout.
 */
#ifndef TRIBUTARY_COMPOUND_H
#define TRIBUTARY_COMPOUND_H

#include "flow.h"

/* Segments in the queue from which the path counts as congested (the draft's gamma). */
#define COMPOUND_GAMMA 30ULL

/* Adopts a window that the kernel set: the loss window is all of it except the delay window. */
static __always_inline void compound_sync(struct tcp_sock *tp, struct compound *c)
{
	__u64 total = (__u64)tp->snd_cwnd << 32;

	if (tp->snd_cwnd == c->written)
		return;
	total += (__u32)(c->loss_window + c->delay_window);
	c->written = tp->snd_cwnd;
	c->loss_window = total > c->delay_window + ONE_Q32 ? total - c->delay_window : ONE_Q32;
}

static __always_inline void compound_write(struct tcp_sock *tp, struct compound *c)
{
	set_cwnd(tp, (c->loss_window + c->delay_window) >> 32);
	c->written = tp->snd_cwnd;
}

/* alpha win^k - 1, Q32, with the draft's alpha = 1/8 and k = 3/4; at least zero. `total`: Q32. */
static __always_inline __u64 compound_gain(__u64 total)
{
	__u64 root = sqrt_u64(total);             /* Q16 */
	__u64 fourth = sqrt_u64(root << 16);      /* Q16 */
	__u64 power = root * fourth;              /* Q32 */

	return power > 8 * ONE_Q32 ? power / 8 - ONE_Q32 : 0;
}

/* The delay window after a round. */
static __always_inline void compound_round(struct tcp_sock *tp, struct compound *c)
{
	__u64 total = c->loss_window + c->delay_window;
	__u64 base = min_u64(tp->rtt_min.s[0].v, 1U << 23) * c->rtt_count;
	/* total (1 - base/rtt): Q16 times a ratio in Q24. */
	__u64 late = c->rtt_sum > base ? div_u64((c->rtt_sum - base) << 24, c->rtt_sum) : 0;
	__u64 queued = (total >> 16) * late >> 8;

	if (queued < COMPOUND_GAMMA * ONE_Q32)
		c->delay_window += compound_gain(total);
	else
		c->delay_window = c->delay_window > queued ? c->delay_window - queued : 0;
	c->delay_window = min_u64(c->delay_window, MAX_SEGMENTS << 32);
	compound_write(tp, c);
}

static __always_inline void compound_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = &flow_of(sk)->compound;

	if (c->round_ended) {
		/* The window could not grow when the round ended: its samples are not used. */
		c->round_ended = 0;
		c->rtt_sum = 0;
		c->rtt_count = 0;
	}
	if (sample->rtt_us > 0) {
		c->rtt_sum += sample->rtt_us;
		c->rtt_count++;
	}
	c->round_ended = round_passed(tp, &c->round_end);
}

/*
 * Slow start up to the threshold; `flow->fraction` has its part of a segment. Returns the rest for
 * congestion avoidance. `acked` and the result in Q32 segments.
 */
static __always_inline __u64 compound_slow_start(struct tcp_sock *tp, struct flow *flow, __u64 acked)
{
	struct compound *c = &flow->compound;
	__u64 total = c->loss_window + c->delay_window;
	__u64 threshold = ((__u64)tp->snd_ssthresh << 32) + flow->fraction;

	if (flow->fraction)
		threshold -= ONE_Q32;
	if (total + acked < threshold) {
		c->loss_window += acked;
		return 0;
	}
	c->loss_window += threshold - min_u64(total, threshold);
	tp->snd_ssthresh = threshold >> 32;
	flow->fraction = 0;
	return total + acked - max_u64(total, threshold);
}

static __always_inline void compound_cong_avoid(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	struct compound *c = &flow->compound;
	__u64 total, rest = (__u64)min_u64(acked, MAX_SEGMENTS) << 32;

	if (!cwnd_limited(tp))
		return;
	compound_sync(tp, c);
	if (tp->snd_cwnd < tp->snd_ssthresh)
		rest = compound_slow_start(tp, flow, rest);
	/* The draft's 1 / (cwnd + dwnd) for each segment, at most a segment at once. */
	total = c->loss_window + c->delay_window;
	c->loss_window += min_u64(div_u64(rest << 8, total >> 24), ONE_Q32);
	c->loss_window = min_u64(c->loss_window, MAX_SEGMENTS << 32);
	compound_write(tp, c);
	if (c->round_ended) {
		if (tp->snd_cwnd >= tp->snd_ssthresh && c->rtt_count)
			compound_round(tp, c);
		c->round_ended = 0;
		c->rtt_sum = 0;
		c->rtt_count = 0;
	}
}

/* The loss window halves, and so does the sum of both (the draft's beta = 1/2). */
static __always_inline __u32 compound_ssthresh(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = &flow_of(sk)->compound;

	compound_sync(tp, c);
	c->loss_before = c->loss_window;
	c->delay_before = c->delay_window;
	c->loss_window = max_u64(c->loss_window / 2, 2 * ONE_Q32);
	c->delay_window /= 2;
	c->rtt_sum = 0;
	c->rtt_count = 0;
	c->written = (c->loss_window + c->delay_window) >> 32;
	flow_of(sk)->fraction = 0;
	return c->written;
}

static __always_inline void compound_set_state(struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = &flow_of(sk)->compound;

	if (state != CA_LOSS)
		return;
	flow_of(sk)->fraction = (__u32)c->loss_window;
	tp->snd_ssthresh = (c->loss_window >> 32) + (flow_of(sk)->fraction != 0);
	c->loss_window = ONE_Q32;
	c->delay_window = 0;
	c->written = 1;
}

/* The kernel restarts after idle time: the delay window becomes zero. */
static __always_inline void compound_cwnd_event(struct sock *sk, int event)
{
	if (event == EVENT_CWND_RESTART) {
		flow_of(sk)->compound.delay_window = 0;
		flow_of(sk)->fraction = 0;
	}
}

static __always_inline __u32 compound_undo(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *c = &flow_of(sk)->compound;

	compound_sync(tp, c);
	c->loss_window = max_u64(c->loss_window, c->loss_before);
	c->delay_window = max_u64(c->delay_window, c->delay_before);
	c->written = (c->loss_window + c->delay_window) >> 32;
	flow_of(sk)->fraction = 0;
	return c->written;
}

#endif
