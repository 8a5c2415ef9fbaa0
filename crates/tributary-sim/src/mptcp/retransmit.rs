//! Retransmission of data that a subflow delays.
//!
//! The kernel (upstream Linux, `net/mptcp/protocol.c`): the connection's own timer retransmits the oldest
//! data on an *idle* subflow. A subflow without progress for more than four timer periods, while another
//! works, is *stale*, and everything unacknowledged is sent again. multipath-tcp.org: a timeout of a subflow
//! puts all its data into the reinjection queue, and the subflow counts as potentially failed until it makes
//! progress.

use core::time::Duration;

use tributary_types::{DataSeq, Instant};

use super::MptcpTransport;
use crate::tcp::on_wheel;

/// The timer's period while every subflow with data is backing off (`TCP_RTO_MIN`).
pub(super) const LEAST_PERIOD: Duration = Duration::from_millis(200);
/// Periods without progress after which a subflow is stale (`net.mptcp.stale_loss_cnt`).
const STALE_AFTER: u8 = 4;

impl MptcpTransport {
    /// A subflow's retransmission timer fired.
    pub(super) fn timed_out(&mut self, at: usize) {
        let timeouts = self.subflows[at].socket.info().timeouts;
        if std::mem::replace(&mut self.subflows[at].timeouts, timeouts) == timeouts {
            return;
        }
        self.dirty = true;
        if !self.is_kernel() {
            let outstanding: Vec<_> = self.subflows[at].outstanding().collect();
            for seq in outstanding {
                self.stream.reinject(seq);
            }
        }
    }

    /// Sets the connection's timers while data is outstanding.
    pub(super) fn watch(&mut self, now: Instant) {
        let unacknowledged = self.stream.view(0).unacknowledged();
        if unacknowledged == 0 {
            self.retransmit_at = None;
            let stuck = self.stream.unnumbered() > 0 && self.edge <= self.acknowledged;
            if !stuck {
                self.probe_at = None;
            } else if self.probe_at.is_none() {
                self.probe_at = Some(on_wheel(self.config.tcp.tick, now, now + LEAST_PERIOD));
            }
        } else if self.is_kernel() && self.retransmit_at.is_none() {
            self.retransmit_at = Some(on_wheel(self.config.tcp.tick, now, now + self.period));
        }
    }

    /// The longest timer of the subflows that are not suspect (`mptcp_timeout_from_subflow`); while
    /// acknowledgements arrive, that of the tail-loss probe. Read when data is given to a subflow, and kept
    /// after.
    pub(super) fn period(&self) -> Duration {
        let trusted = self.subflows.iter().filter(|s| s.established && s.stale_count == 0 && !s.is_idle());
        let infos = trusted.map(|s| s.socket.info());
        let timer = infos.map(|i| if i.timeouts_in_a_row == 0 { i.rto.min(i.srtt * 2) } else { i.rto });
        timer.max().filter(|time| !time.is_zero()).unwrap_or(LEAST_PERIOD)
    }

    /// The kernel's connection timer fired (`__mptcp_retrans`).
    pub(super) fn retransmit(&mut self, now: Instant) {
        self.dirty = true;
        let mut idle = None;
        for at in 0..self.subflows.len() {
            if !self.subflows[at].established || self.subflows[at].finishing {
                continue;
            }
            if self.subflows[at].is_idle() {
                idle = idle.or(Some(at));
            } else {
                self.check_stale(at);
            }
        }
        let head = self.stream.view(0).first();
        let sent = self.stream.view(0).segment(head).is_some_and(|s| s.sends > 0);
        if let Some(at) = idle.filter(|_| sent) {
            let id = self.subflows[at].id;
            self.carry(now, head, id);
        }
    }

    /// Counts the periods in which a subflow with data received nothing (`mptcp_pm_subflow_chk_stale`).
    fn check_stale(&mut self, at: usize) {
        let good = |s: &super::Subflow| s.established && !s.stale && s.stale_count < STALE_AFTER - 1;
        let another = self.subflows.iter().enumerate().any(|(i, s)| i != at && good(s));
        let subflow = &mut self.subflows[at];
        if subflow.stale_count == 0 {
            (subflow.stale_heard, subflow.stale_count) = (subflow.heard, 1);
        } else if subflow.stale_heard != subflow.heard {
            subflow.stale_count = 0;
        } else {
            subflow.stale_count = subflow.stale_count.saturating_add(1);
            if subflow.stale_count > STALE_AFTER && another && !std::mem::replace(&mut subflow.stale, true) {
                self.send_everything_again();
            }
        }
    }

    /// Sends all unacknowledged data again, the oldest first (`__mptcp_retransmit_pending_data`).
    fn send_everything_again(&mut self) {
        let view = self.stream.view(0);
        let sent = |seq: &DataSeq| view.segment(*seq).is_some_and(|s| s.sends > 0 && !s.acknowledged);
        let all: Vec<_> = (view.first().0..view.end().0).map(DataSeq).filter(sent).collect();
        for seq in all {
            self.stream.reinject(seq);
        }
    }

    /// The window is closed and nothing is in flight: probes it on every subflow with the last byte that the
    /// peer already has.
    pub(super) fn probe(&mut self, now: Instant) {
        let Some(last) = self.acknowledged.checked_sub(1) else { return };
        for subflow in self.subflows.iter_mut().filter(|s| s.established && !s.finishing) {
            subflow.carry(now, DataSeq(u64::MAX), (last, 1));
        }
        self.dirty = true;
    }
}
