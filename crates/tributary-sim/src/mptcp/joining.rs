//! Opening and losing subflows: the first connection, joins, and the loss of a subflow.
//!
//! Source: RFC 8684 §3.1, §3.2. The fourth packet of a join is not modelled.

use tributary_proto::Side;
use tributary_proto::scheduler::SchedulerEvent;
use tributary_types::Instant;

use super::MptcpTransport;
use super::mapping::Mappings;
use super::subflow::Subflow;
use crate::host::Outbox;
use crate::multipath;
use crate::packet::{Packet, TcpSegment};
use crate::tcp::{TcpConfig, TcpSocket};
use crate::transport::Notice;

impl MptcpTransport {
    fn socket(&self, number: u32) -> TcpSocket {
        // The connection's buffers limit a subflow; it has none of its own.
        let tcp = TcpConfig { send_buffer: u64::MAX / 4, auto_tune: false, ..self.config.tcp.clone() };
        let tcp_window = tcp.receive_buffer;
        let congestion = (self.config.congestion.as_str(), &self.config.own);
        let controller = multipath::controller(congestion, &tcp, self.config.seed ^ u64::from(number));
        let mut socket = match self.side {
            Side::Client => TcpSocket::connect(tcp, controller, number),
            Side::Server => TcpSocket::listen(tcp, controller, number),
        };
        // The subflow accepts everything; the connection's window, checked in `send`, limits the peer.
        socket.set_window_override(Some(tcp_window));
        socket
    }

    /// Client: connects on a path.
    fn dial(&mut self, at: usize) {
        let number = multipath::connection_number(self.next_incarnation, at);
        self.next_incarnation += 1;
        let [up, down] = <[Mappings; 2]>::default();
        self.shared.dialled.borrow_mut().insert(number, [up.clone(), down.clone()]);
        let path = (at, self.paths[at].route);
        self.subflows.push(Subflow::new(number, path, self.socket(number), [down, up]));
    }

    /// Client: connects on every path that is up and has no subflow; only on one while no subflow is up.
    pub(super) fn dial_missing(&mut self) {
        for at in 0..self.paths.len() {
            if !self.connected && !self.subflows.is_empty() {
                return;
            }
            if self.present[at] && self.subflows.iter().all(|s| s.path != at) {
                self.dial(at);
            }
        }
    }

    /// Server: handles a segment of no known subflow. A SYN begins one, whose index is returned.
    pub(super) fn accept(&mut self, segment: &TcpSegment) -> Option<usize> {
        if self.side == Side::Client || !segment.is_syn || segment.is_ack || self.closed {
            return None;
        }
        let [up, down] = self.shared.dialled.borrow_mut().remove(&segment.connection)?;
        let (_, at) = multipath::incarnation_and_path(segment.connection);
        let path = (at, self.paths.get(at)?.route);
        let socket = self.socket(segment.connection);
        self.subflows.push(Subflow::new(segment.connection, path, socket, [up, down]));
        Some(self.subflows.len() - 1)
    }

    /// A subflow has ended; its data is sent again on others.
    pub(super) fn lose(&mut self, now: Instant, at: usize, out: &mut Outbox) {
        let mut subflow = self.subflows.remove(at);
        subflow.socket.abort();
        while let Some(segment) = subflow.socket.poll_transmit(now) {
            out.send(Packet::segment(subflow.route, segment));
        }
        let info = subflow.socket.info();
        self.counters.retransmitted += info.retransmitted;
        self.counters.timeouts += info.timeouts;
        if self.side == Side::Client {
            self.shared.dialled.borrow_mut().remove(&subflow.number);
        }
        self.scheduler.on_event(now, SchedulerEvent::SubflowDown(subflow.id));
        let lost: Vec<_> = subflow.outstanding().collect();
        for seq in lost {
            self.stream.lose(seq, subflow.id);
        }
        self.dirty = true;
    }

    pub(super) fn came_up(&mut self, now: Instant, at: usize) {
        let id = self.subflows[at].id;
        self.scheduler.on_event(now, SchedulerEvent::SubflowUp(id));
        self.dirty = true;
        if !std::mem::replace(&mut self.connected, true) {
            self.notices.push_back(Notice::Connected);
            if self.side == Side::Client {
                // The first acknowledgement at connection level takes a round trip; joins are sent after it.
                self.join_at = Some(now + self.subflows[at].socket.info().srtt);
            }
        }
    }
}
