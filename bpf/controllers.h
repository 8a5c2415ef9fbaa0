/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The callbacks of the five controllers, called by the kernel and by the replay program. */
#ifndef TRIBUTARY_CONTROLLERS_H
#define TRIBUTARY_CONTROLLERS_H

#include "compound.h"
#include "wvegas.h"

SEC("struct_ops")
void BPF_PROG(flow_init, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	__builtin_memset(flow, 0, sizeof(*flow));
	flow->delivered_at_loss = tcp_sk(sk)->delivered;
}

SEC("struct_ops")
void BPF_PROG(flow_release, struct sock *sk)
{
	leave(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(flow_undo, struct sock *sk)
{
	return undo(tcp_sk(sk), flow_of(sk));
}

/* The callbacks of a coupled controller. */
#define COUPLED(name, RULE)                                                      \
	SEC("struct_ops")                                                        \
	void BPF_PROG(name##_cong_avoid, struct sock *sk, __u32 ack, __u32 acked) \
	{                                                                        \
		coupled_cong_avoid(sk, acked, RULE);                             \
	}                                                                        \
                                                                                 \
	SEC("struct_ops")                                                        \
	__u32 BPF_PROG(name##_ssthresh, struct sock *sk)                         \
	{                                                                        \
		return coupled_ssthresh(sk, RULE);                               \
	}

COUPLED(lia, LIA)
COUPLED(olia, OLIA)
COUPLED(balia, BALIA)

SEC("struct_ops")
void BPF_PROG(coupled_state, struct sock *sk, __u8 state)
{
	coupled_set_state(sk, state);
}

SEC("struct_ops")
void BPF_PROG(coupled_on_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	coupled_pkts_acked(sk, sample->pkts_acked);
}

/* The callbacks of a delay-based controller. */
#define BY_DELAY(name)                                                                     \
	SEC("struct_ops")                                                                  \
	void BPF_PROG(name##_on_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)       \
	{                                                                                  \
		name##_cong_avoid(sk, acked);                                              \
	}                                                                                  \
                                                                                           \
	SEC("struct_ops")                                                                  \
	void BPF_PROG(name##_on_pkts_acked, struct sock *sk, const struct ack_sample *sample) \
	{                                                                                  \
		name##_pkts_acked(sk, sample);                                             \
	}                                                                                  \
                                                                                           \
	SEC("struct_ops")                                                                  \
	__u32 BPF_PROG(name##_on_ssthresh, struct sock *sk)                                \
	{                                                                                  \
		return name##_ssthresh(sk);                                                \
	}                                                                                  \
                                                                                           \
	SEC("struct_ops")                                                                  \
	void BPF_PROG(name##_on_set_state, struct sock *sk, __u8 state)                    \
	{                                                                                  \
		name##_set_state(sk, state);                                               \
	}                                                                                  \
                                                                                           \
	SEC("struct_ops")                                                                  \
	void BPF_PROG(name##_on_cwnd_event, struct sock *sk, int event)                    \
	{                                                                                  \
		name##_cwnd_event(sk, event);                                              \
	}

BY_DELAY(compound)
BY_DELAY(wvegas)

SEC("struct_ops")
void BPF_PROG(wvegas_init, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	__builtin_memset(flow, 0, sizeof(*flow));
	wvegas_forget(&flow->wvegas);
	flow->wvegas.round_end = tcp_sk(sk)->snd_nxt;
}

SEC("struct_ops")
void BPF_PROG(compound_init, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	__builtin_memset(flow, 0, sizeof(*flow));
	flow->compound.round_end = tcp_sk(sk)->snd_nxt;
}

SEC("struct_ops")
__u32 BPF_PROG(compound_on_undo, struct sock *sk)
{
	return compound_undo(sk);
}

#define COUPLED_OPS(rule)                                   \
	SEC(".struct_ops")                                  \
	struct tcp_congestion_ops trib_##rule = {                  \
		.init = (void *)flow_init,                  \
		.release = (void *)flow_release,            \
		.ssthresh = (void *)rule##_ssthresh,        \
		.cong_avoid = (void *)rule##_cong_avoid,    \
		.pkts_acked = (void *)coupled_on_pkts_acked, \
		.set_state = (void *)coupled_state,         \
		.undo_cwnd = (void *)flow_undo,             \
		.name = #rule,                              \
	}

COUPLED_OPS(lia);
COUPLED_OPS(olia);
COUPLED_OPS(balia);

SEC(".struct_ops")
struct tcp_congestion_ops trib_compound = {
	.init = (void *)compound_init,
	.ssthresh = (void *)compound_on_ssthresh,
	.cong_avoid = (void *)compound_on_cong_avoid,
	.pkts_acked = (void *)compound_on_pkts_acked,
	.set_state = (void *)compound_on_set_state,
	.cwnd_event = (void *)compound_on_cwnd_event,
	.undo_cwnd = (void *)compound_on_undo,
	.name = "compound",
};

SEC(".struct_ops")
struct tcp_congestion_ops trib_wvegas = {
	.init = (void *)wvegas_init,
	.release = (void *)flow_release,
	.ssthresh = (void *)wvegas_on_ssthresh,
	.cong_avoid = (void *)wvegas_on_cong_avoid,
	.pkts_acked = (void *)wvegas_on_pkts_acked,
	.set_state = (void *)wvegas_on_set_state,
	.cwnd_event = (void *)wvegas_on_cwnd_event,
	.undo_cwnd = (void *)flow_undo,
	.name = "wvegas",
};

#endif
