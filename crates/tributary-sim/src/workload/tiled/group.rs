//! The viewers of one server, and whether their GoPs are planned together.
//!
//! The server is where the plan of all would be made: it knows what every viewer measured and where every head was at the time of the
//! plan, less the way there, which a plan of the viewer's own also takes. The messages with that knowledge are not sent; they are about as large as the plans that they
//! replace, which still are.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use tributary_player::tiled::{PlayError, Player, plan_together};
use tributary_types::Instant;
use tributary_video::allocation::Sharing;

/// A player, shared by its client and its group.
pub(super) type Member = Rc<RefCell<Player>>;

/// Viewers that watch at the same time.
#[derive(Clone, Default)]
pub struct Group {
    /// `None`: each plans for itself.
    sharing: Option<Sharing>,
    members: Rc<RefCell<Vec<Member>>>,
}

impl Group {
    /// A group without viewers. `sharing` is the objective of plans that are made together.
    #[must_use]
    pub fn new(sharing: Option<Sharing>) -> Self {
        Self { sharing, ..Self::default() }
    }

    pub(super) fn add(&self, player: Player) -> Member {
        let member = Rc::new(RefCell::new(player));
        self.members.borrow_mut().push(member.clone());
        member
    }

    /// Decides the slots that are due, if they are planned together.
    pub(super) fn plan(&self, now: Instant) -> Result<(), PlayError> {
        let Some(sharing) = self.sharing else { return Ok(()) };
        let members = self.members.borrow();
        let mut players: Vec<RefMut<'_, Player>> = members.iter().map(|member| member.borrow_mut()).collect();
        plan_together(now, &mut players.iter_mut().map(|player| &mut **player).collect::<Vec<_>>(), sharing)
    }
}
