//! The file with the clients of a server: TOML, one `[[client]]` each. Every error names the file and the line.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;
use tributary_types::file_text::decode;

use super::Client;
use crate::allow::{AllowRule, AllowRules};
use crate::identity::PublicKey;

/// Larger files are refused.
const MOST: u64 = 64 << 20;

/// Why a list of clients cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientsError {
    /// The file cannot be read.
    #[error("list of clients {}: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Users other than its owner may change the file, and so admit themselves.
    #[error("list of clients {} may be changed by others (mode {mode:03o}); run: chmod go-w {}", path.display(), path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("list of clients {} belongs to user {owner}, not to this user ({user}) or root; run: chown {user} {}", path.display(), path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user whom this process runs as.
        user: u32,
    },
    /// A line cannot be used.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    client: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    key: Spanned<String>,
    allow: Option<Vec<Spanned<String>>>,
    forward: Option<Vec<String>>,
    rate: Option<Spanned<String>>,
    sessions: Option<Spanned<u32>>,
}

/// What is wrong, and where in the text.
type Fault = (Range<usize>, String);

/// Reads a list of clients.
///
/// # Errors
/// [`ClientsError`] names the file and the line.
pub fn read(path: &Path) -> Result<Vec<Client>, ClientsError> {
    let text = read_text(path)?;
    parse(&text).map_err(|(at, problem)| {
        let line = text[..at.start.min(text.len())].matches('\n').count() + 1;
        ClientsError::Line { path: path.to_owned(), line, problem }
    })
}

fn read_text(path: &Path) -> Result<String, ClientsError> {
    let unreadable = |problem: String| ClientsError::Unreadable { path: path.to_owned(), problem };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    if metadata.is_file() {
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
        let user = rustix::process::geteuid().as_raw();
        if owner != user && owner != 0 {
            return Err(ClientsError::Foreign { path: path.to_owned(), owner, user });
        }
        if mode & 0o022 != 0 {
            return Err(ClientsError::Writable { path: path.to_owned(), mode });
        }
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MOST {
        return Err(unreadable("larger than 64 MiB".to_owned()));
    }
    decode(&bytes).map(|text| text.into_owned()).map_err(|error| unreadable(error.to_string()))
}

/// The clients in a text, or what is wrong with it and where.
pub(crate) fn parse(text: &str) -> Result<Vec<Client>, Fault> {
    let document: Document =
        toml::from_str(text).map_err(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))?;
    let (mut names, mut keys) = (HashMap::new(), HashMap::new());
    let mut clients = Vec::with_capacity(document.client.len());
    for entry in document.client {
        let (name_at, key_at) = (entry.name.span(), entry.key.span());
        let client = client(entry)?;
        if names.insert(client.name.clone(), ()).is_some() {
            return Err((name_at, format!("another client is called `{}`", client.name)));
        }
        if let Some(other) = keys.insert(client.key, client.name.clone()) {
            return Err((key_at, format!("`{}` has the same key; make one for each client", other)));
        }
        clients.push(client);
    }
    Ok(clients)
}

fn client(entry: Entry) -> Result<Client, Fault> {
    let name = entry.name.get_ref().trim().to_owned();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err((
            entry.name.span(),
            "a name has at least one character, and no control characters".to_owned(),
        ));
    }
    let key = PublicKey::parse(entry.key.get_ref(), &format!("the key of `{name}`"))
        .map_err(|error| (entry.key.span(), error.to_string()))?;
    let rule = |rule: &Spanned<String>| {
        rule.get_ref().parse::<AllowRule>().map_err(|error| (rule.span(), error.to_string()))
    };
    let rules = |rules: Vec<Spanned<String>>| rules.iter().map(rule).collect::<Result<AllowRules, _>>();
    let allow = entry.allow.map(rules).transpose()?;
    let rate = entry.rate.map(|rate| bits(rate.get_ref()).map_err(|problem| (rate.span(), problem)));
    let sessions = entry.sessions.map(|most| match most.get_ref() {
        0 => Err((most.span(), "sessions is at least 1; leave the client out to revoke it".to_owned())),
        most => Ok(*most as usize),
    });
    Ok(Client {
        name,
        key,
        allow,
        forward: entry.forward,
        rate: rate.transpose()?,
        sessions: sessions.transpose()?,
    })
}

/// A rate in bit/s.
fn bits(text: &str) -> Result<u64, String> {
    let expected =
        || format!("rate `{text}`: expected a number with kbit/s, Mbit/s or Gbit/s, for example 20 Mbit/s");
    let units = [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
    let mut found = units.iter().filter_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)));
    let (number, factor) = found.next().ok_or_else(expected)?;
    let number: f64 = number.trim().parse().map_err(|_| expected())?;
    let bits = number * factor;
    if (1e3..=1e12).contains(&bits) { Ok(bits as u64) } else { Err(expected()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::identity::PrivateKey;

    fn key(seed: u8) -> String {
        PrivateKey::from_seed([seed; 32]).public().to_string()
    }

    #[test]
    fn a_list_names_clients_with_their_limits() {
        let text = format!(
            "# two devices\n[[client]]\nname = \"laptop\"\nkey = \"{}\"\n\n[[client]]\nname = \"phone\"\nkey = \"{}\"\n\
             allow = [\"any:443\", \"10.0.0.0/8\"]\nforward = [\"web\"]\nrate = \"20 Mbit/s\"\nsessions = 2\n",
            key(1),
            key(2)
        );
        let clients = parse(&text).unwrap();
        assert_eq!(clients[0], Client::new("laptop", PrivateKey::from_seed([1; 32]).public()));
        let phone = &clients[1];
        assert_eq!((phone.rate, phone.sessions), (Some(20_000_000), Some(2)));
        assert_eq!(phone.forward.as_deref(), Some(&["web".to_owned()][..]));
        assert!(phone.allow.as_ref().unwrap().allow(None, "10.1.2.3:1".parse().unwrap()));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn every_error_names_the_line() {
        let (one, two) = (key(1), key(2));
        let client = |more: &str| format!("[[client]]\nname = \"a\"\nkey = \"{one}\"\n{more}");
        let private = PrivateKey::from_seed([1; 32]).to_line();
        for (text, line, part) in [
            (client("colour = 3\n"), 4, "unknown field `colour`"),
            ("x = 1\n".to_owned(), 1, "unknown field `x`"),
            ("[[client]]\nname = \"a\"\n".to_owned(), 1, "missing field `key`"),
            (client("name = \"b\"\n"), 4, "duplicate key"),
            (
                "[[client]]\nname = \"a\"\nkey = \"AAAA\"\n".to_owned(),
                3,
                "the key of `a` is not a public key",
            ),
            (format!("[[client]]\nname = \"a\"\nkey = \"{}\"\n", *private), 3, "is not a public key"),
            (client("allow = [\"any:443\",\n  \"10.0.0.0/33\"]\n"), 5, "`10.0.0.0/33`"),
            (client("rate = \"20\"\n"), 4, "Mbit/s"),
            (client("rate = 20\n"), 4, "expected a string"),
            (client("rate = \"-1 Mbit/s\"\n"), 4, "Mbit/s"),
            (client("rate = \"NaN Mbit/s\"\n"), 4, "Mbit/s"),
            (client("sessions = 0\n"), 4, "at least 1"),
            (client("sessions = -1\n"), 4, "-1"),
            (client(&format!("[[client]]\nname = \"b\"\nkey = \"{one}\"\n")), 6, "`a` has the same key"),
            (client(&format!("[[client]]\nname = \"a\"\nkey = \"{two}\"\n")), 5, "called `a`"),
            (client("[[client]]\nname = \" \"\nkey = \"x\"\n"), 5, "at least one character"),
            (client("allow = [\n"), 4, ""),
        ] {
            let (at, problem) = parse(&text).expect_err(&text);
            assert_eq!(text[..at.start].matches('\n').count() + 1, line, "{text}\n{problem}");
            assert!(problem.contains(part), "{problem}");
            assert!(!problem.contains(&private[20..]), "a secret is repeated: {problem}");
        }
    }

    #[test]
    fn a_list_that_others_may_change_is_refused() {
        let path = std::env::temp_dir().join(format!("tributary-clients-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o666);
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 666") && error.contains("chmod go-w"), "{error}");
        mode(0o644);
        assert!(read(&path).unwrap().is_empty());
        std::fs::write(&path, "\n\nx = 1\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:3: ", path.display())), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("No such file"));
    }
}
