/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Groups of sibling subflows. A group is an entry of the map `trib_groups` with a slot per member. A
 * socket joins when it first has data to publish, and leaves when it closes.
 *
 * A group is removed with its last member. Before its removal from the map it is marked `dead`, under
 * the lock, and no socket joins it; without the mark a socket could join a group that is then removed.
 * The map may reuse a removed group's memory at once, so a member compares the key under the lock,
 * and also its own mark (`owner`) in its slot.
 */
#ifndef TRIBUTARY_GROUP_H
#define TRIBUTARY_GROUP_H

#include "flow.h"

#define MAX_MEMBERS 8
#define ALL_SLOTS ((1U << MAX_MEMBERS) - 1)
#define MAX_GROUPS 65536
#define JOIN_TRIES 4

/* Origin of a group's id. */
enum { BY_NONE = 0, BY_MARK = 1, BY_TOKEN = 2 };

struct group_key {
	__u64 net; /* cookie of the network namespace */
	__u64 id;  /* SO_MARK and user, or MPTCP token */
	__u64 kind;
};

struct slot {
	__u32 owner;   /* mark of its socket */
	__u32 rtt;     /* smoothed, 1/8 us; zero: unknown */
	__u64 window;  /* segments, Q16 */
	__u64 transit; /* OLIA's l, bytes */
	__u32 mss;
	__u32 unused;
};

struct group {
	struct bpf_spin_lock lock;
	__u32 used; /* one bit per slot that has an owner */
	__u32 dead;
	__u32 unused;
	struct group_key key;
	struct slot slots[MAX_MEMBERS];
};

#ifndef TRIBUTARY_REPLAY
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct group_key);
	__type(value, struct group);
} trib_groups SEC(".maps");

static __always_inline __u32 mptcp_token(struct sock *sk)
{
	void *context = ((struct inet_connection_sock *)sk)->icsk_ulp_data;
	struct mptcp_subflow_context *subflow = context;

	return context ? BPF_CORE_READ(subflow, token) : 0;
}

static __always_inline __u64 net_cookie(struct sock *sk)
{
	return sk->__sk_common.skc_net.net->net_cookie;
}
#endif

/* The group of a socket, from its MPTCP token or its mark. */
static __always_inline struct group_key key_of(struct sock *sk)
{
	struct group_key key = {};

	if (tcp_sk(sk)->is_mptcp) {
		key.id = mptcp_token(sk);
		key.kind = key.id ? BY_TOKEN : BY_NONE;
	} else if (sk->sk_mark) {
		key.id = (__u64)sk->sk_uid.val << 32 | sk->sk_mark;
		key.kind = BY_MARK;
	}
	if (key.kind)
		key.net = net_cookie(sk);
	return key;
}

static __always_inline struct group_key key_of_flow(const struct flow *flow)
{
	struct group_key key = { .net = flow->group_net, .id = flow->group_id, .kind = flow->group_kind };

	return key;
}

static __always_inline int same_key(const struct group_key *a, const struct group_key *b)
{
	return a->net == b->net && a->id == b->id && a->kind == b->kind;
}

/* Adds a group whose first member is `owner`, in slot 0. Fails when the group exists or the map is full. */
static __noinline int add_group(const struct group_key *key, __u32 owner)
{
	struct group group = {};

	group.used = 1;
	group.key = *key;
	group.slots[0].owner = owner;
	return bpf_map_update_elem(&trib_groups, &group.key, &group, BPF_NOEXIST);
}

/* Number of the lowest set bit of eight bits. */
static __always_inline __u32 lowest_bit(__u32 bits)
{
	__u32 lowest = bits & -bits;

	return ((lowest & 0xf0) != 0) << 2 | ((lowest & 0xcc) != 0) << 1 | ((lowest & 0xaa) != 0);
}

/* Takes a free slot of an existing group; returns its number, or -1. */
static __noinline int take_slot(struct group_key *key, __u32 owner)
{
	struct group *group = bpf_map_lookup_elem(&trib_groups, key);
	struct slot empty = {};
	__u32 free, at;
	int taken = -1;

	if (!group)
		return -1;
	empty.owner = owner;
	bpf_spin_lock(&group->lock);
	free = ~group->used & ALL_SLOTS;
	if (free && !group->dead && same_key(&group->key, key)) {
		at = lowest_bit(free) & (MAX_MEMBERS - 1);
		group->used |= 1U << at;
		group->slots[at] = empty;
		taken = at;
	}
	bpf_spin_unlock(&group->lock);
	return taken;
}

/*
 * Joins the socket's group, if it has one. If the group is full, or is being removed at every try, the
 * socket continues alone and tries again later.
 */
static __noinline int join(struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct group_key key = key_of(sk);
	__u32 owner = bpf_get_prandom_u32() | 1;
	int at = -1;

	if (key.kind == BY_NONE)
		return 0;
	for (int tries = 0; tries < JOIN_TRIES && at < 0; tries++) {
		at = take_slot(&key, owner);
		if (at < 0 && add_group(&key, owner) == 0)
			at = 0;
	}
	if (at < 0)
		return 0;
	flow->group_net = key.net;
	flow->group_id = key.id;
	flow->group_kind = key.kind;
	flow->slot = at;
	flow->owner = owner;
	return 0;
}

/* Frees the slot, and removes the group if this was its last member. */
static __noinline int leave(struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct group_key key = key_of_flow(flow);
	__u32 at = flow->slot & (MAX_MEMBERS - 1), owner = flow->owner;
	struct group *group;
	int last = 0;

	if (!owner)
		return 0;
	flow->owner = 0;
	group = bpf_map_lookup_elem(&trib_groups, &key);
	if (!group)
		return 0;
	bpf_spin_lock(&group->lock);
	if (!group->dead && same_key(&group->key, &key) && group->slots[at].owner == owner) {
		group->used &= ~(1U << at);
		group->slots[at].owner = 0;
		group->slots[at].rtt = 0;
		last = group->dead = group->used == 0;
	}
	bpf_spin_unlock(&group->lock);
	if (last)
		bpf_map_delete_elem(&trib_groups, &key);
	return 0;
}

/* The data that the socket publishes to its siblings. */
static __always_inline struct slot own_slot(struct tcp_sock *tp, struct flow *flow)
{
	__u64 transit = max_u64(since_loss(tp, flow), flow->between_losses);
	struct slot slot = {
		.owner = flow->owner,
		.rtt = tp->srtt_us,
		.window = window_q32(tp, flow) >> 16,
		.transit = transit * tp->mss_cache,
		.mss = tp->mss_cache,
	};

	return slot;
}

/*
 * Writes the socket's own slot and copies all slots. Without a group, `all` contains only the socket's
 * own slot. Returns the number of the own slot.
 */
static __always_inline __u32 exchange(struct slot *own, struct flow *flow, struct slot all[MAX_MEMBERS])
{
	struct group_key key = key_of_flow(flow);
	__u32 at = flow->slot & (MAX_MEMBERS - 1);
	struct group *group;
	int member = 0;

	if (own->owner) {
		group = bpf_map_lookup_elem(&trib_groups, &key);
		if (group) {
			bpf_spin_lock(&group->lock);
			if (!group->dead && same_key(&group->key, &key) && group->slots[at].owner == own->owner) {
				group->slots[at] = *own;
				__builtin_memcpy(all, group->slots, sizeof(group->slots));
				member = 1;
			}
			bpf_spin_unlock(&group->lock);
		}
	}
	if (member)
		return at;
	flow->owner = 0;
	__builtin_memset(all, 0, sizeof(struct slot) * MAX_MEMBERS);
	all[0] = *own;
	return 0;
}

/* Publishes a new window to the siblings at once: `window` in Q16 segments. */
static __noinline int tell(struct sock *sk, __u64 window)
{
	struct flow *flow = flow_of(sk);
	struct group_key key = key_of_flow(flow);
	struct slot own = own_slot(tcp_sk(sk), flow);
	__u32 at = flow->slot & (MAX_MEMBERS - 1);
	struct group *group;

	own.window = window;
	if (!own.owner)
		return 0;
	group = bpf_map_lookup_elem(&trib_groups, &key);
	if (!group)
		return 0;
	bpf_spin_lock(&group->lock);
	if (!group->dead && same_key(&group->key, &key) && group->slots[at].owner == own.owner)
		group->slots[at] = own;
	bpf_spin_unlock(&group->lock);
	return 0;
}

#endif
