//! Arguments for the keys of an end, and the commands that make keys. How a server follows its list of clients.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tributary_cli::output;
use tributary_net::clients::{self, Changes, Clients, FileChanges};
use tributary_net::{Key, Keys, PrivateKey, PublicKey};

/// Said at every start with a shared key.
const SHARED: &str = "--shared-key: whoever has this key can pose as the server and as every client, and read and change all \
                      their traffic; it cannot be revoked for one of them. Use it between your own devices only; for others: \
                      tributary keygen, --server-key and --clients";

/// Keys of a client.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientKeys {
    /// The server's public key, as `tributary pubkey` prints it at the server
    #[arg(long, value_name = "PUBKEY", requires = "key")]
    pub(crate) server_key: Option<String>,
    /// File with this client's own private key (see `tributary keygen`); the server's list of clients has the public one
    #[arg(long, value_name = "FILE", requires = "server_key")]
    pub(crate) key: Option<PathBuf>,
    /// File with one key that the server and all clients have, instead of keys of their own: for your own devices only
    ///
    /// Whoever has it can pose as the server and as every client. See `tributary keygen --shared`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "server_key"])]
    pub(crate) shared_key: Option<PathBuf>,
}

/// Keys of a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerKeys {
    /// File with this server's own private key (see `tributary keygen`); clients give the public one as --server-key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// File with the clients that are admitted: TOML, read again on SIGHUP and when it changes
    ///
    /// One `[[client]]` each: name, key (its public key), and if wanted allow (as --allow, instead of it), forward (names of
    /// targets), rate (for example "20 Mbit/s") and sessions. The sessions of a client that is taken out end at once.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) clients: Option<PathBuf>,
    /// File with one key that the server and all clients have, instead of keys of their own: for your own devices only
    ///
    /// Whoever has it can pose as the server and as every client. See `tributary keygen --shared`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "clients"])]
    pub(crate) shared_key: Option<PathBuf>,
}

fn shared(file: &Path) -> Result<Keys> {
    Ok(Key::load(file)?.into())
}

/// Says what a shared key means. Call it when the log has begun.
pub(crate) fn say(keys: Option<&Keys>) {
    if keys.is_some_and(|keys| keys.shared().is_some()) {
        tracing::warn!("{SHARED}");
    }
}

impl ClientKeys {
    /// The keys, if any were given.
    pub(crate) fn load(&self) -> Result<Option<Keys>> {
        match (&self.shared_key, &self.key, &self.server_key) {
            (Some(file), ..) => shared(file).map(Some),
            (None, Some(file), Some(server)) => {
                let (own, server) = (PrivateKey::load(file)?, PublicKey::parse(server, "--server-key")?);
                Ok(Some(Keys::Client { own, server }))
            }
            (None, ..) => Ok(None),
        }
    }

    /// The keys, which are needed.
    pub(crate) fn required(&self) -> Result<Keys> {
        let Some(keys) = self.load()? else {
            bail!("give --server-key PUBKEY and --key FILE (see tributary keygen), or --shared-key FILE");
        };
        Ok(keys)
    }
}

impl ServerKeys {
    /// The keys, if any were given, and the list of clients. `--key` without `--clients` admits nobody.
    pub(crate) fn load(&self) -> Result<(Option<Keys>, Option<ClientList>)> {
        match (&self.shared_key, &self.key, &self.clients) {
            (Some(file), ..) => Ok((Some(shared(file)?), None)),
            (None, Some(file), list) => {
                let own = PrivateKey::load(file)?;
                let list = list.as_deref().map(ClientList::read).transpose()?;
                let clients = list.as_ref().map_or_else(|| Clients::new([]), |list| list.clients.clone());
                Ok((Some(Keys::Server { own, clients }), list))
            }
            (None, None, _) => Ok((None, None)),
        }
    }

    /// The keys for sessions, which are needed.
    pub(crate) fn required(&self) -> Result<(Keys, Option<ClientList>)> {
        match self.load()? {
            (Some(keys), list) if keys.shared().is_some() || list.is_some() => Ok((keys, list)),
            _ => bail!("give --key FILE and --clients FILE (see tributary keygen), or --shared-key FILE"),
        }
    }
}

/// The list of clients, and the file that it is read from.
#[derive(Debug)]
pub(crate) struct ClientList {
    file: PathBuf,
    clients: Clients,
}

impl ClientList {
    fn read(file: &Path) -> Result<Self> {
        Ok(Self { file: file.to_owned(), clients: Clients::new(clients::read(file)?) })
    }

    /// Reads the file again on SIGHUP and when it changes, until the runtime ends. Call it before privileges are given up.
    pub(crate) fn follow(self) -> Result<()> {
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let changes = FileChanges::of(&self.file);
        if let Err(error) = &changes {
            tracing::warn!(
                "changes of {} are not noticed ({error}); send SIGHUP after a change",
                self.file.display()
            );
        }
        tracing::info!("{} lists clients: {}", self.file.display(), self.clients.count());
        tokio::spawn(self.follow_until_the_end(hangup, changes.ok()));
        Ok(())
    }

    async fn follow_until_the_end(self, mut hangup: Signal, mut changes: Option<FileChanges>) {
        loop {
            let changed = async {
                match &mut changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            let is_lost = tokio::select! {
                signalled = hangup.recv() => {
                    if signalled.is_none() {
                        return;
                    }
                    false
                }
                changed = changed => changed.is_err(),
            };
            if is_lost {
                changes = None;
            }
            self.reload();
        }
    }

    fn reload(&self) {
        match clients::read(&self.file) {
            Ok(list) => {
                let Changes { added, changed, revoked } = self.clients.replace(list);
                let names = |names: &[String]| match names {
                    [] => "none".to_owned(),
                    names => names.join(", "),
                };
                tracing::info!(
                    "{} lists clients: {}; added: {}; changed: {}; revoked: {}",
                    self.file.display(),
                    self.clients.count(),
                    names(&added),
                    names(&changed),
                    names(&revoked)
                );
            }
            Err(error) => tracing::error!("{error}; the list that was read before stays in force"),
        }
    }
}

/// Make a key: into a file that only its owner can read, or to standard output.
///
/// A private key is for one end, a server or a client; `tributary pubkey` prints its public key, which the others need.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary keygen --out server.key
  tributary keygen --shared --out shared.key")]
pub(crate) struct KeygenArguments {
    /// Write the key to this new file, mode 600; an existing file is not overwritten
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Make a shared key, for --shared-key at all ends, instead of a private key
    #[arg(long)]
    shared: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Print the public key of a private key, for --server-key or the list of clients.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary pubkey server.key
  tributary keygen | tee client.key | tributary pubkey")]
pub(crate) struct PubkeyArguments {
    /// File with the private key [default: standard input]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn keygen(arguments: &KeygenArguments) -> Result<ExitCode> {
    let (line, public) = match arguments.shared {
        true => (Key::generate()?.to_line(), None),
        false => {
            let key = PrivateKey::generate()?;
            (key.to_line(), Some(key.public().to_string()))
        }
    };
    let Some(path) = &arguments.out else {
        let json = || serde_json::json!({ "key": *line, "public_key": public }).to_string();
        output::line(&if arguments.json { json() } else { line.to_string() })?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if file.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
        bail!("{} exists, and a key is never overwritten; choose another name", path.display());
    }
    let written = file.and_then(|mut file| {
        let written = file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n"));
        // On a full disk a part of the key would be left, and in the way of the next attempt.
        written.inspect_err(|_| drop(std::fs::remove_file(path)))
    });
    written.with_context(|| format!("cannot write the key to {}", path.display()))?;
    if arguments.json {
        output::line(&serde_json::json!({ "file": path, "public_key": public }).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    match public {
        Some(public) => eprintln!("private key written to {}; its public key is {public}", path.display()),
        None => {
            eprintln!(
                "shared key written to {}; copy it to your other devices over a secure channel",
                path.display()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pubkey(arguments: &PubkeyArguments) -> Result<ExitCode> {
    let file = arguments.file.as_deref().unwrap_or(Path::new("/dev/stdin"));
    let public = PrivateKey::load(file)?.public().to_string();
    let json = || serde_json::json!({ "public_key": public }).to_string();
    output::line(&if arguments.json { json() } else { public.clone() })?;
    Ok(ExitCode::SUCCESS)
}
