//! Where the sockets of a user's programs are: one rule for the programs and for `tributary status`.
//!
//! A service and a login shell of one user have different environments, and a directory may appear with a login and
//! disappear with it. So a program has a socket in every place that it can use, and `status` looks in all of them:
//!
//! - `TRIBUTARY_RUNTIME_DIR`, if set, is the only place.
//! - root: `/run/tributary`; others: `/run/user/UID/tributary`, if that user directory exists.
//! - root looks in `/run/tributary-services/*`, too, where systemd makes a directory for each unit with a user of its own.
//! - everybody: `/tmp/tributary-UID`, whatever `TMPDIR` is, and `$XDG_RUNTIME_DIR/tributary`, if set.
//!
//! Each directory must belong to the user and be closed to others, because another user could replace the sockets.

use anyhow::Result;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tributary_cli::private;

/// Where systemd makes directories for units (`RuntimeDirectory=`); only root can.
const SERVICES: &str = "/run/tributary-services";

/// A directory for sockets, which may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketDirectory(PathBuf);

impl SocketDirectory {
    #[cfg(test)]
    pub(crate) fn at(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    /// Makes it if it does not exist.
    pub(crate) fn make(&self) -> Result<&Path> {
        private::make(&self.0).map_err(way_out)?;
        Ok(&self.0)
    }

    /// The directory, if it exists.
    pub(crate) fn existing(&self) -> Result<Option<&Path>> {
        if !self.0.exists() {
            return Ok(None);
        }
        // A unit's directory is the unit's user's. Root trusts its place, which only root can write to.
        if self.0.parent() != Some(Path::new(SERVICES)) || private::user() != 0 {
            private::check(&self.0, private::user()).map_err(way_out)?;
        }
        Ok(Some(&self.0))
    }
}

/// The places of this user's programs, and for root those of units.
pub(crate) fn places_to_look() -> Vec<SocketDirectory> {
    let mut all = places();
    let is_named = std::env::var_os("TRIBUTARY_RUNTIME_DIR").is_some_and(|name| !name.is_empty());
    if private::user() == 0 && !is_named && only_root_writes(Path::new(SERVICES)) {
        let units = std::fs::read_dir(SERVICES).into_iter().flatten().flatten();
        all.extend(units.map(|unit| SocketDirectory(unit.path())));
    }
    all
}

fn only_root_writes(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|made| made.is_dir() && made.uid() == 0 && made.mode() & 0o022 == 0)
}

/// The places of this user.
pub(crate) fn places() -> Vec<SocketDirectory> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let user = private::user();
    let login = Path::new("/run/user").join(user.to_string());
    let has_login = private::check(&login, user).is_ok();
    let run = Path::new("/run/tributary");
    let root = (user == 0 && (run.exists() || private::make(run).is_ok())).then(|| run.to_owned());
    let (only, session) = (set("TRIBUTARY_RUNTIME_DIR"), set("XDG_RUNTIME_DIR"));
    choose(
        (only, session),
        root,
        has_login.then_some(login),
        Path::new("/tmp").join(format!("tributary-{user}")),
    )
}

fn way_out(error: anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}; or name another directory with TRIBUTARY_RUNTIME_DIR")
}

fn choose(
    (only, session): (Option<OsString>, Option<OsString>),
    root: Option<PathBuf>,
    login: Option<PathBuf>,
    temporary: PathBuf,
) -> Vec<SocketDirectory> {
    if let Some(only) = only {
        return vec![SocketDirectory(only.into())];
    }
    let well_known = root.or_else(|| login.map(|login| login.join("tributary")));
    let mut places: Vec<SocketDirectory> =
        well_known.into_iter().chain([temporary]).map(SocketDirectory).collect();
    let session = session.map(|session| SocketDirectory(Path::new(&session).join("tributary")));
    places.extend(session.filter(|session| !places.contains(session)).into_iter().collect::<Vec<_>>());
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(places: Vec<SocketDirectory>) -> Vec<String> {
        places.into_iter().map(|place| place.0.display().to_string()).collect()
    }

    #[test]
    fn a_service_and_a_login_shell_share_a_place() {
        let (root, login) = (|| Some("/run/tributary".into()), || Some("/run/user/7".into()));
        let temporary = || PathBuf::from("/tmp/tributary-7");
        let shell = Some("/run/user/7".into());
        let service = choose((None, None), None, login(), temporary());
        assert_eq!(names(service), ["/run/user/7/tributary", "/tmp/tributary-7"]);
        let shell = choose((None, shell), None, login(), temporary());
        assert_eq!(names(shell), ["/run/user/7/tributary", "/tmp/tributary-7"], "each once");
        let before_login = choose((None, None), None, None, temporary());
        assert_eq!(names(before_login), ["/tmp/tributary-7"]);
        let own = choose((None, Some("/x".into())), root(), None, temporary());
        assert_eq!(names(own), ["/run/tributary", "/tmp/tributary-7", "/x/tributary"]);
        let only = choose((Some("/only".into()), Some("/x".into())), root(), login(), temporary());
        assert_eq!(names(only), ["/only"]);
    }

    #[test]
    fn a_place_that_others_can_write_to_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(only_root_writes(directory.path()), private::user() == 0);
        set(0o777);
        assert!(!only_root_writes(directory.path()));
        assert!(!only_root_writes(Path::new("/proc/self/exe")), "no directory");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused_with_the_way_out() {
        let directory = tempfile::tempdir().unwrap();
        let place = SocketDirectory::at(&directory.path().join("sockets"));
        assert!(place.existing().unwrap().is_none());
        place.make().unwrap();
        assert!(place.existing().unwrap().is_some());
        std::fs::set_permissions(&place.0, PermissionsExt::from_mode(0o755)).unwrap();
        for error in [place.make().unwrap_err(), place.existing().unwrap_err()] {
            assert!(error.to_string().contains("TRIBUTARY_RUNTIME_DIR"), "{error:#}");
        }
    }
}
