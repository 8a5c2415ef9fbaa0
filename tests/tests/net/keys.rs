//! Keys of each end: who is admitted, what clients with different keys can do to each other, and revocation while it runs.

use std::time::{Duration, Instant};

use tributary_net::clients::{Client, Clients};
use tributary_net::{
    Common, ConnectError, Form, HandshakeError, HelloError, Keys, Listener, Peer, PrivateKey, Refusal,
    Session, connect,
};

use crate::common::{check_pattern, client, in_time, listen, paths, send_pattern, settings};

/// Code of a session whose client was revoked.
const REVOKED: u32 = 7;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed([seed; 32])
}

/// The server's key is 1.
fn server(clients: &Clients) -> Common {
    Common::new(Keys::Server { own: key(1), clients: clients.clone() })
}

fn of_client(seed: u8) -> Common {
    Common::new(Keys::Client { own: key(seed), server: key(1).public() })
}

fn listed(seeds: &[u8]) -> Vec<Client> {
    seeds.iter().map(|seed| Client::new(&format!("client-{seed}"), key(*seed).public())).collect()
}

async fn attempt(listener: &Listener, common: Common) -> Result<Session, ConnectError> {
    let mut config = client(common, paths(2, listener.addresses()[0]));
    config.timeout = Duration::from_secs(2);
    connect(config).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_client_is_known_by_its_name_and_its_data_arrives() {
    in_time(async {
        let clients = Clients::new(listed(&[2, 3]));
        let mut listener = listen(server(&clients)).await;
        let session = attempt(&listener, of_client(3)).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        assert_eq!(peer.client().unwrap().name, "client-3");
        let mut stream = session.open_stream(0).await.unwrap();
        let receiving = async { check_pattern(&mut peer.accept_stream().await.unwrap()).await };
        let (_, received) = tokio::join!(send_pattern(&mut stream, 3_000_000), receiving);
        assert_eq!(received, 3_000_000);
    })
    .await;
}

#[tokio::test]
async fn a_client_cannot_pose_as_the_server() {
    in_time(async {
        // A listed client listens with all that it has: its own key, and the server's public one.
        let impostor =
            listen(Common::new(Keys::Server { own: key(2), clients: Clients::new(listed(&[3])) })).await;
        let error = attempt(&impostor, of_client(3)).await.unwrap_err();
        let (expected, shown) = (key(1).public(), key(2).public());
        let ConnectError::Handshake(HandshakeError::Hello(HelloError::WrongServer { .. })) = error else {
            panic!("{error}");
        };
        let said = error.to_string();
        assert!(said.contains(&expected.to_string()) && said.contains(&shown.to_string()), "{said}");
        assert!(said.contains("--server-key"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_not_in_the_list_gets_the_reason() {
    in_time(async {
        let clients = Clients::new(listed(&[2]));
        let mut listener = listen(server(&clients)).await;
        let error = attempt(&listener, of_client(3)).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Handshake(HandshakeError::Refused(Refusal::UnknownClient))),
            "{error}"
        );
        assert!(error.is_fatal() && error.to_string().contains("tributary pubkey"), "{error}");
        // It is admitted as soon as it is in the list.
        clients.replace(listed(&[2, 3]));
        let session = attempt(&listener, of_client(3)).await.unwrap();
        assert!(listener.accept().await.is_some() && !session.is_closed());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_clients_session_ends_and_anothers_transfer_goes_on() {
    in_time(async {
        let clients = Clients::new(listed(&[2, 3]));
        let mut listener = listen(server(&clients)).await;
        let revoked = attempt(&listener, of_client(2)).await.unwrap();
        let (of_revoked, _) = listener.accept().await.unwrap();
        let kept = attempt(&listener, of_client(3)).await.unwrap();
        let (of_kept, _) = listener.accept().await.unwrap();
        // Both are in the middle of a transfer that the other end does not read any further.
        let mut endless = revoked.open_stream(0).await.unwrap();
        tokio::spawn(async move { while endless.write_chunk(vec![0; 50_000].into()).await.is_ok() {} });
        let mut stream = kept.open_stream(0).await.unwrap();
        let sending = tokio::spawn(async move { send_pattern(&mut stream, 50_000_000).await });
        let mut arriving = of_kept.accept_stream().await.unwrap();
        let mut unread = of_revoked.accept_stream().await.unwrap();
        assert!(unread.read_chunk().await.unwrap().is_some());

        let began = Instant::now();
        let changes = clients.replace(listed(&[3]));
        assert_eq!(changes.revoked, ["client-2"]);
        let closed = revoked.closed().await;
        // real time: 1 s is what is promised; it takes a round trip on loopback.
        assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
        assert_eq!((closed.code, closed.by_peer), (REVOKED, true));
        assert!(closed.reason.contains("revoked"), "{closed}");
        assert_eq!(of_revoked.closed().await.code, REVOKED);
        assert!(unread.read_chunk().await.is_err(), "what has arrived is not delivered");

        assert_eq!(check_pattern(&mut arriving).await, 50_000_000);
        sending.await.unwrap();
        assert!(!kept.is_closed());
        let error = attempt(&listener, of_client(2)).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Handshake(HandshakeError::Refused(Refusal::UnknownClient))),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn ends_with_other_forms_of_keys_refuse_each_other_with_that_reason() {
    in_time(async {
        let own = listen(server(&Clients::new(listed(&[2])))).await;
        let shared = listen(settings(false)).await;
        for (listener, common, form, part) in [
            (&own, settings(false), Form::Own, "give --server-key and --key"),
            (&shared, of_client(2), Form::Shared, "has a shared key"),
        ] {
            let error = attempt(listener, common).await.unwrap_err();
            let expected = HelloError::OtherForm { peer: Peer::Server, form };
            assert!(error.to_string().contains(part), "{error}");
            assert!(
                matches!(error, ConnectError::Handshake(HandshakeError::Hello(error)) if error == expected),
                "another reason"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn two_machines_with_one_key_share_its_number_of_sessions() {
    in_time(async {
        let limited =
            |most| listed(&[2]).into_iter().map(move |client| Client { sessions: Some(most), ..client });
        let clients = Clients::new(limited(2));
        let mut listener = listen(server(&clients)).await;
        let one = attempt(&listener, of_client(2)).await.unwrap();
        let two = attempt(&listener, of_client(2)).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let _other_peer = listener.accept().await.unwrap();
        let error = attempt(&listener, of_client(2)).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Handshake(HandshakeError::Refused(Refusal::ClientSessions))),
            "{error}"
        );
        assert!(!one.is_closed() && !two.is_closed());
        one.close().await.unwrap();
        peer.closed().await;
        let three = attempt(&listener, of_client(2)).await.unwrap();
        assert!(!two.is_closed() && !three.is_closed());
    })
    .await;
}

#[tokio::test]
async fn plaintext_mode_needs_a_shared_key() {
    let plaintext = |common| Common { plaintext: true, ..common };
    let address = "127.0.0.1:1".parse().unwrap();
    let error = connect(client(plaintext(of_client(2)), paths(1, address))).await.unwrap_err();
    assert!(error.is_fatal() && error.to_string().contains("--shared-key"), "{error}");
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let config = tributary_net::ListenConfig::new(addresses, plaintext(server(&Clients::new([]))));
    assert!(Listener::bind(config).await.unwrap_err().to_string().contains("--shared-key"));
}
