//! Keys of each end over every transport that authenticates.

use super::*;
use crate::clients::{Client, Clients};
use crate::hello::Refusal;
use crate::identity::PrivateKey;
use crate::keys::Keys;

const TRANSPORTS: [&str; 3] = ["session", "quic", "mpquic"];

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed([seed; 32])
}

fn with(name: &str, keys: Keys) -> TransportConfig {
    TransportConfig::new(name.parse().unwrap()).with_common(Common::new(keys))
}

fn server(name: &str, clients: &Clients) -> TransportConfig {
    with(name, Keys::Server { own: key(1), clients: clients.clone() })
}

fn client(name: &str, own: u8, of_server: u8) -> TransportConfig {
    let mut config = with(name, Keys::Client { own: key(own), server: key(of_server).public() });
    config.timeout = Duration::from_secs(5);
    config
}

fn listed(seeds: &[u8]) -> Vec<Client> {
    seeds.iter().map(|seed| Client::new(&seed.to_string(), key(*seed).public())).collect()
}

#[tokio::test]
async fn only_listed_clients_get_an_answer_and_only_from_the_expected_server() {
    for name in TRANSPORTS {
        let clients = Clients::new(listed(&[2]));
        let address = echo(&server(name, &clients)).await;
        let connection = Connection::connect(&client(name, 2, 1), &paths(address, 1)).await.unwrap();
        assert_eq!(ask(&connection, b"listed").await.unwrap(), b"listed", "{name}");
        let unknown = Connection::connect(&client(name, 3, 1), &paths(address, 1)).await.unwrap_err();
        assert!(unknown.to_string().contains("does not know this client's key"), "{name}: {unknown}");
        let wrong = Connection::connect(&client(name, 2, 9), &paths(address, 1)).await.unwrap_err();
        let said = wrong.to_string();
        assert!(
            said.contains("not the expected one") && said.contains(&key(9).public().to_string()),
            "{said}"
        );
    }
}

#[tokio::test]
async fn ends_of_other_forms_refuse_each_other_with_that_reason() {
    for name in TRANSPORTS {
        let own = echo(&server(name, &Clients::new(listed(&[2])))).await;
        let shared = echo(&config(name, 1)).await;
        let mut with_shared = config(name, 1);
        with_shared.timeout = Duration::from_secs(5);
        let error = Connection::connect(&with_shared, &paths(own, 1)).await.unwrap_err().to_string();
        assert!(error.contains("knows each client by a key of its own"), "{name}: {error}");
        let error =
            Connection::connect(&client(name, 2, 1), &paths(shared, 1)).await.unwrap_err().to_string();
        assert!(error.contains("has a shared key"), "{name}: {error}");
    }
}

#[tokio::test]
async fn connections_of_a_revoked_client_end_with_that_reason() {
    for name in TRANSPORTS {
        let clients = Clients::new(listed(&[2, 3]));
        let address = echo(&server(name, &clients)).await;
        let revoked = Connection::connect(&client(name, 2, 1), &paths(address, 1)).await.unwrap();
        let kept = Connection::connect(&client(name, 3, 1), &paths(address, 1)).await.unwrap();
        assert_eq!(ask(&revoked, b"before").await.unwrap(), b"before", "{name}");
        clients.replace(listed(&[3]));
        let closed = revoked.closed().await;
        let is_named = match &closed {
            ConnectionClosed::Revoked(refusal) => *refusal == Refusal::UnknownClient,
            closed => closed.to_string().contains("revoked"),
        };
        assert!(is_named, "{name}: {closed}");
        assert_eq!(ask(&kept, b"after").await.unwrap(), b"after", "{name}");
    }
}

#[tokio::test]
async fn what_is_carried_for_a_client_stays_below_its_rate() {
    const BYTES: usize = 250_000;
    for name in TRANSPORTS {
        let limited = Client { rate: Some(8_000_000), ..Client::new("limited", key(2).public()) };
        let address = echo(&server(name, &Clients::new([limited]))).await;
        let connection = Connection::connect(&client(name, 2, 1), &paths(address, 1)).await.unwrap();
        let began = std::time::Instant::now();
        assert_eq!(ask(&connection, &[7; BYTES]).await.unwrap(), [7; BYTES], "{name}");
        // real time: at 1 MB/s each way takes 230 ms and more, and the echo may begin before all has arrived; without the limit both
        // take a few ms.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(200), "{name}: {took:?}");
    }
}

#[tokio::test]
async fn a_client_has_no_more_connections_than_the_list_allows() {
    for name in ["quic", "mpquic"] {
        let limited = Client { sessions: Some(1), ..Client::new("limited", key(2).public()) };
        let others = listed(&[3]).into_iter().chain([limited]);
        let address = echo(&server(name, &Clients::new(others))).await;
        let first = Connection::connect(&client(name, 2, 1), &paths(address, 1)).await.unwrap();
        assert_eq!(ask(&first, b"first").await.unwrap(), b"first", "{name}");
        let said = match Connection::connect(&client(name, 2, 1), &paths(address, 1)).await {
            Ok(second) => second.closed().await.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains("as many connections as the list of clients allows: 1"), "{name}: {said}");
        let other = Connection::connect(&client(name, 3, 1), &paths(address, 1)).await.unwrap();
        assert_eq!(ask(&other, b"other").await.unwrap(), b"other", "{name}");
        assert_eq!(ask(&first, b"still").await.unwrap(), b"still", "{name}");
    }
}
