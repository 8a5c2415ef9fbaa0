//! Which of the machine's traffic goes through the tunnel.

use std::net::IpAddr;

use nix::unistd::User;
use thiserror::Error;

/// What goes through the tunnel. Several kinds are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Traffic to these networks; none, with nothing else: all traffic except that to the networks that the machine is in.
    pub networks: Vec<(IpAddr, u8)>,
    /// All traffic of these users, first and last.
    pub users: Vec<(u32, u32)>,
    /// All traffic of processes in these control groups (version 2), as paths below the root of their file system.
    pub groups: Vec<String>,
}

/// Not a selection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Not a network.
    #[error(
        "`{0}` is not a network: expected an address and the length of its prefix, for example 10.0.0.0/8 or 2001:db8::/32"
    )]
    Network(String),
    /// Not a user.
    #[error("`{0}` is not a user: expected a name of this system, a number, or two numbers FIRST-LAST")]
    User(String),
    /// Not a control group.
    #[error(
        "`{0}` is not a control group: expected a path below /sys/fs/cgroup without spaces and quotes, for example user.slice/games"
    )]
    Group(String),
}

impl Selection {
    /// All of the machine's traffic.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.networks.is_empty() && self.users.is_empty() && self.groups.is_empty()
    }
}

/// An address and the length of its prefix.
///
/// # Errors
/// [`SelectionError::Network`].
pub fn parse_network(text: &str) -> Result<(IpAddr, u8), SelectionError> {
    let parse = || {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
        let unused = match address {
            IpAddr::V4(four) => 32_u32.checked_sub(prefix.into())? > four.to_bits().trailing_zeros(),
            IpAddr::V6(six) => 128_u32.checked_sub(prefix.into())? > six.to_bits().trailing_zeros(),
        };
        (!unused).then_some((address, prefix))
    };
    parse().ok_or_else(|| SelectionError::Network(text.to_owned()))
}

/// A user's name, number, or the first and last of several numbers.
///
/// # Errors
/// [`SelectionError::User`].
pub fn parse_users(text: &str) -> Result<(u32, u32), SelectionError> {
    let refuse = || SelectionError::User(text.to_owned());
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number < u32::MAX);
    if let Some(number) = number(text) {
        return Ok((number, number));
    }
    if let Some((first, last)) = text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))) {
        return if first <= last { Ok((first, last)) } else { Err(refuse()) };
    }
    let user = User::from_name(text).ok().flatten().ok_or_else(refuse)?;
    Ok((user.uid.as_raw(), user.uid.as_raw()))
}

/// A control group's path as nft takes it.
pub(crate) fn group(text: &str) -> Result<&str, SelectionError> {
    let path = text.strip_prefix("/sys/fs/cgroup/").unwrap_or(text).trim_matches('/');
    let is_plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@:\\".contains(&byte))
    };
    if path.split('/').all(is_plain) { Ok(path) } else { Err(SelectionError::Group(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_users_parse_and_others_are_refused_with_the_expected_form() {
        assert_eq!(parse_network("10.0.0.0/8"), Ok(("10.0.0.0".parse().unwrap(), 8)));
        assert_eq!(parse_network("::/0"), Ok(("::".parse().unwrap(), 0)));
        for text in ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "a/8", "::1/64", "::/129"] {
            assert!(parse_network(text).unwrap_err().to_string().contains("10.0.0.0/8"), "{text}");
        }
        assert_eq!(parse_users("root"), Ok((0, 0)));
        assert_eq!((parse_users("1000"), parse_users("5-9")), (Ok((1000, 1000)), Ok((5, 9))));
        for text in ["", "9-5", "4294967295", "no-such-user", "1-"] {
            assert!(parse_users(text).unwrap_err().to_string().contains("FIRST-LAST"), "{text}");
        }
        assert_eq!(group("/sys/fs/cgroup/user.slice/games/"), Ok("user.slice/games"));
        for text in ["", "a/../b", "a b", "a\"b", "/"] {
            assert!(group(text).is_err(), "{text}");
        }
    }
}
