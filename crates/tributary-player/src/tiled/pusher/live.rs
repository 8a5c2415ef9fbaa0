//! The server's end for a live video: menus are sent as GoPs come, and only the last GoPs can be requested.

use tributary_video::rd::TileCells;

use super::{Answer, Pusher, TiledMessage};

impl Pusher {
    /// Of a live video, GoP `gop` is there, with these tiles, and the GoPs before `oldest` are gone. Its menu is sent
    /// without a request. The first call is about the GoP with which the viewing begins; the others follow without a gap.
    pub fn handle_gop(&mut self, (oldest, gop): (u32, u32), tiles: &[TileCells]) {
        self.there = oldest..gop + 1;
        self.answer(Answer::Live(TiledMessage::menu(gop, tiles, 0).encode()));
    }

    /// The live video ends with GoP `gop`.
    pub fn handle_last(&mut self, gop: u32) {
        self.answer(Answer::Live(TiledMessage::Last { gop }.encode()));
    }

    /// The tile in [`Transmit::Read`](super::Transmit::Read) is no longer kept.
    pub fn handle_gone(&mut self) {
        let Some(order) = self.reading.take() else { return };
        self.unsent(order);
        if let Some(at) = self.plans.iter().position(|plan| plan.gop == order.gop) {
            let plan = self.plans.remove(at);
            self.counters.expired += plan.map_or(0, |plan| super::tiles(&plan.entries));
        }
        self.gone(order.gop);
    }

    /// Menus of GoPs that are there or come later are sent anyway.
    pub(super) fn menus_of_live(&mut self, first: u32) {
        if first < self.there.start {
            self.gone(first);
        }
    }

    /// Tells the client that a GoP is no longer kept.
    pub(super) fn gone(&mut self, gop: u32) {
        let oldest = self.there.start;
        self.answer(Answer::Live(TiledMessage::Gone { gop, oldest }.encode()));
    }
}
