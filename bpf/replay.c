// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Replays recorded events through the controllers, as the kernel would call them, and prints each
 * flow's window. Standard input: one event per line. Standard output: one line per event,
 * `cwnd ssthresh` of the event's flow, in segments.
 *
 *   use NAME FLOWS MSS WINDOW          first line: controller, flows of one group, first window
 *   ack FLOW SEGMENTS RTT SRTT BASE LIMITED RECOVERY ROUND
 *                                      times in us, RTT 0: no sample; SRTT in 1/8 us
 *   fast FLOW | timeout FLOW           a loss, by later acknowledgements or by the timer
 *   end FLOW                           recovery is over
 *   undo FLOW                          the last loss was spurious
 *   close FLOW                         the socket closes; prints the number of groups left and 0
 */
#define TRIBUTARY_REPLAY

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#include "controllers.h"

#define FLOWS MAX_MEMBERS
/* More than the acknowledgements of any round. */
#define ROUND (1U << 24)

struct replayed {
	struct tcp_sock tp;
	__u32 prior_ssthresh;
	enum { NONE, FAST, TIMEOUT } episode;
	int progressed, can_undo;
};

char trib_groups;
static struct replayed flows[FLOWS];
static struct group group;
static int group_exists;
static struct tcp_congestion_ops *ops;

void *bpf_map_lookup_elem(void *map, const void *key)
{
	return group_exists && same_key(&group.key, key) ? &group : NULL;
}

long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	if (group_exists)
		return -1;
	group = *(const struct group *)value;
	group_exists = 1;
	return 0;
}

long bpf_map_delete_elem(void *map, const void *key)
{
	group_exists = 0;
	return 0;
}

__u32 bpf_get_prandom_u32(void)
{
	static __u32 last;

	return last += 2;
}

__u32 mptcp_token(struct sock *sk)
{
	return 0;
}

__u64 net_cookie(struct sock *sk)
{
	return 1;
}

static void stop(const char *what)
{
	fprintf(stderr, "replay: %s\n", what);
	exit(1);
}

static struct tcp_congestion_ops *named(const char *name)
{
	struct tcp_congestion_ops *all[] = { &trib_lia, &trib_olia, &trib_balia, &trib_compound, &trib_wvegas };

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	stop("unknown controller");
	return NULL;
}

static void begin(void)
{
	char name[16];
	unsigned count, mss, window;

	if (scanf("use %15s %u %u %u\n", name, &count, &mss, &window) != 4 || count > FLOWS)
		stop("the first line must be: use NAME FLOWS MSS WINDOW");
	ops = named(name);
	for (unsigned i = 0; i < count; i++) {
		struct tcp_sock *tp = &flows[i].tp;

		tp->snd_cwnd = window;
		tp->snd_cwnd_clamp = ~0U;
		tp->snd_ssthresh = 0x7fffffff;
		tp->mss_cache = mss;
		tp->snd_nxt = ROUND;
		((struct sock *)tp)->sk_mark = 1;
		ops->init((struct sock *)tp);
	}
}

static void on_ack(struct replayed *flow)
{
	unsigned segments, rtt, srtt, base, limited, recovery, round;
	struct tcp_sock *tp = &flow->tp;

	if (scanf("%u %u %u %u %u %u %u", &segments, &rtt, &srtt, &base, &limited, &recovery, &round) != 7)
		stop("ack FLOW SEGMENTS RTT SRTT BASE LIMITED RECOVERY ROUND");
	struct ack_sample sample = { .pkts_acked = segments, .rtt_us = rtt ? (int)rtt : -1 };

	tp->delivered += segments;
	tp->srtt_us = srtt;
	tp->rtt_min.s[0].v = base;
	tp->is_cwnd_limited = limited;
	tp->snd_una = round ? tp->snd_nxt + 1 : tp->snd_una + 1;
	if (round)
		tp->snd_nxt = tp->snd_una + ROUND;
	flow->progressed = 1;
	if (!recovery)
		flow->episode = NONE;
	if (ops->pkts_acked)
		ops->pkts_acked((struct sock *)tp, &sample);
	if (!recovery && segments)
		ops->cong_avoid((struct sock *)tp, tp->snd_una, segments);
}

/* tcp_enter_recovery and tcp_enter_loss; the reduction takes effect at once. */
static void on_loss(struct replayed *flow, int timeout)
{
	struct tcp_sock *tp = &flow->tp;
	struct sock *sk = (struct sock *)tp;
	int again = timeout && (flow->episode == FAST || (flow->episode == TIMEOUT && !flow->progressed));

	if (!again) {
		flow->can_undo = 1;
		tp->prior_cwnd = tp->snd_cwnd;
		flow->prior_ssthresh = max_u64(tp->snd_ssthresh, tp->snd_cwnd / 4 * 3);
		tp->snd_ssthresh = ops->ssthresh(sk);
	}
	tp->snd_cwnd = timeout ? 1 : tp->snd_ssthresh;
	flow->episode = timeout ? TIMEOUT : FAST;
	flow->progressed = 0;
	if (ops->set_state)
		ops->set_state(sk, timeout ? CA_LOSS : CA_RECOVERY);
}

static void on_end(struct replayed *flow)
{
	flow->episode = NONE;
	if (ops->set_state)
		ops->set_state((struct sock *)&flow->tp, CA_OPEN);
}

/* tcp_undo_cwnd_reduction. */
static void on_undo(struct replayed *flow)
{
	struct tcp_sock *tp = &flow->tp;

	if (!flow->can_undo)
		return;
	flow->can_undo = 0;
	tp->snd_cwnd = ops->undo_cwnd((struct sock *)tp);
	tp->snd_ssthresh = max_u64(tp->snd_ssthresh, flow->prior_ssthresh);
}

int main(void)
{
	char event[16];
	unsigned at;

	begin();
	while (scanf("%15s %u", event, &at) == 2) {
		struct replayed *flow = &flows[at % FLOWS];

		if (strcmp(event, "ack") == 0)
			on_ack(flow);
		else if (strcmp(event, "fast") == 0 || strcmp(event, "timeout") == 0)
			on_loss(flow, event[0] == 't');
		else if (strcmp(event, "end") == 0)
			on_end(flow);
		else if (strcmp(event, "undo") == 0)
			on_undo(flow);
		else if (strcmp(event, "close") != 0)
			stop("unknown event");
		if (event[0] == 'c') {
			if (ops->release)
				ops->release((struct sock *)&flow->tp);
			printf("%d 0\n", group_exists);
		} else {
			printf("%u %u\n", flow->tp.snd_cwnd, flow->tp.snd_ssthresh);
		}
	}
	return 0;
}
