//! A scenario's links in a world, the routes over them, and the use of each route.

use tributary_link::{Direction, LinkOwner, Scenario};

use crate::id::{HostId, LinkId, RouteId};
use crate::multipath::SubflowPath;
use crate::world::World;

/// All links of a scenario.
#[derive(Debug)]
pub(super) struct Topology {
    pub links: Vec<OwnedLink>,
}

/// One link with its owner in the scenario.
#[derive(Clone, Debug)]
pub(super) struct OwnedLink {
    pub owner: LinkOwner,
    pub direction: Direction,
    pub name: String,
    pub id: LinkId,
}

/// Use of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteUse {
    /// Index of the path in the scenario.
    pub path: u8,
    /// Direction of its packets.
    pub direction: Direction,
    /// Number of the connection.
    pub connection: u32,
}

/// The routes of the measured connections.
#[derive(Clone, Debug, Default)]
pub struct RouteMap {
    uses: Vec<Option<RouteUse>>,
}

impl RouteMap {
    pub(super) fn add(&mut self, connection: u32, SubflowPath { path, up, down }: SubflowPath) {
        for (route, direction) in [(up, Direction::Up), (down, Direction::Down)] {
            let index = route.index();
            self.uses.resize(self.uses.len().max(index + 1), None);
            self.uses[index] = Some(RouteUse { path, direction, connection });
        }
    }

    /// A map of one route.
    #[cfg(test)]
    pub(crate) fn single(route: RouteId, path: u8, direction: Direction) -> Self {
        let mut uses = vec![None; route.index() + 1];
        uses[route.index()] = Some(RouteUse { path, direction, connection: 0 });
        Self { uses }
    }

    /// The use of `route`; `None` for background traffic.
    #[must_use]
    pub fn of(&self, route: RouteId) -> Option<RouteUse> {
        self.uses.get(route.index()).copied().flatten()
    }
}

impl Topology {
    pub fn build(scenario: &Scenario, world: &mut World) -> Self {
        let paths = scenario.paths.iter().enumerate().map(|(i, path)| (LinkOwner::Path(i), &path.name));
        let hops = scenario.hops.iter().enumerate().map(|(i, hop)| (LinkOwner::Hop(i), &hop.name));
        let mut links = Vec::new();
        for (owner, name) in paths.chain(hops) {
            for direction in [Direction::Down, Direction::Up] {
                let id = world.add_link(scenario.link_config_at(owner, direction));
                links.push(OwnedLink { owner, direction, name: name.clone(), id });
            }
        }
        Self { links }
    }

    pub fn link(&self, owner: LinkOwner, direction: Direction) -> LinkId {
        let same = |link: &&OwnedLink| link.owner == owner && link.direction == direction;
        self.links.iter().find(same).expect("every path and hop of the scenario has its links").id
    }

    /// New routes over `path` between a client and a server.
    pub fn ways(
        &self,
        scenario: &Scenario,
        path: usize,
        world: &mut World,
        (client, server): (HostId, HostId),
    ) -> SubflowPath {
        let chain = |direction| -> Vec<LinkId> {
            let owners = scenario.chain(path, direction).into_iter();
            owners.map(|owner| self.link(owner, direction)).collect()
        };
        SubflowPath {
            path: path as u8,
            up: world.add_route(&chain(Direction::Up), server),
            down: world.add_route(&chain(Direction::Down), client),
        }
    }
}
