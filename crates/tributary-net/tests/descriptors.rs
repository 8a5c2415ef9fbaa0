//! A server that has run out of file descriptors pauses between attempts to accept, and serves again when descriptors
//! are free. A separate test program, because the limit applies to the whole process. Not here: the limits on
//! connections (tests of the transport).

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_net::transport::{Acceptor, Connection, TransportConfig};
use tributary_net::{Common, Key};

/// Descriptors of this process: enough for the test, few enough to be used up at once.
const DESCRIPTORS: u64 = 128;
/// Real time after which the acceptor is assumed to loop without a pause: virtual time stands still then.
const GUARD: Duration = Duration::from_secs(60);

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One second of virtual time passes without descriptors. Virtual time moves only while no task can run, so a loop
/// without a pause would stop it.
#[tokio::test]
async fn a_server_without_free_descriptors_pauses_and_then_accepts_again() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), ..limit }).unwrap();
    let (done, wait) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if wait.recv_timeout(GUARD) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("the acceptor loops without a pause: virtual time stood still for {GUARD:?}");
            std::process::exit(101);
        }
    });
    for name in ["tcp", "session"] {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let mut config = TransportConfig::new(name.parse().unwrap());
        config = config.with_common(Common::new(Key::from_bytes([7; 32])));
        let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let address = acceptor.addresses()[0];
        // The kernel completes the connection, but the server cannot accept it.
        let knocking = TcpStream::connect(address).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
        assert!(!taken.is_empty(), "{name}");
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(1)).await;
        tokio::time::resume();
        assert!(File::open("/dev/null").is_err(), "{name}: descriptors were left over");
        let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said.matches("ulimit -n").count(), 1, "{name}: {said}");
        drop((taken, knocking));
        assert!(echoes(&config, &mut acceptor, address).await, "{name}");
    }
    drop(done);
}

/// Whether the server serves a new client.
async fn echoes(config: &TransportConfig, acceptor: &mut Acceptor, address: SocketAddr) -> bool {
    let paths = [format!("127.0.0.1={address}").parse().unwrap()];
    let client = async {
        let connection = Connection::connect(config, &paths).await.unwrap();
        let mut stream = connection.open_stream(0).await.unwrap();
        stream.write_all(b"ask").await.unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).await.unwrap();
        &answer == b"ask"
    };
    let server = async {
        // The client without a descriptor has closed without sending anything; the next client sends data.
        loop {
            let (connection, _) = acceptor.accept().await.unwrap();
            let mut stream = connection.accept_stream().await.unwrap();
            let mut ask = [0; 3];
            if stream.read_exact(&mut ask).await.is_ok() {
                stream.write_all(&ask).await.unwrap();
                return (connection, stream);
            }
        }
    };
    let (answered, _held) = tokio::join!(client, server);
    answered
}
