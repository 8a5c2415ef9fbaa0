//! The DNS messages of programs inside a namespace: a question for the addresses of a name, and its answer.
//!
//! Sans-IO, and no resolver: the server resolves (`names`). Questions for other types of records get an empty answer.
//! Source: RFC 1035 §4, RFC 3596 (AAAA).

use std::net::IpAddr;

use crate::destination::HostName;

/// Maximum size of an answer over UDP without extensions (RFC 1035 §4.2.1).
const MAX_ANSWER: usize = 512;
const HEADER: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
/// Seconds for which an answer may be kept.
const TTL: u32 = 5;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Records of type A.
    Ipv4,
    /// Records of type AAAA.
    Ipv6,
    /// Records that this resolver does not have.
    Other,
}

/// Why a question has no answer: its code (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message is not a question for one name.
    Format = 1,
    /// The server could not be asked.
    Server = 2,
    /// The name does not exist.
    Name = 3,
    /// The server does not allow connections to the name.
    Refused = 5,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: HostName,
    /// Which addresses.
    pub wanted: Wanted,
    /// Identifier, flags and the question section, as they arrived.
    message: Vec<u8>,
}

impl Question {
    /// Reads a message. The error is the answer to send: empty for a message that is itself no question.
    pub fn read(message: &[u8]) -> Result<Self, Vec<u8>> {
        // An answer to an answer could go round for ever.
        if message.len() < HEADER || message[2] & 0x80 != 0 {
            return Err(Vec::new());
        }
        Self::read_question(message).ok_or_else(|| head(&message[..HEADER], (0, 0), Failure::Format as u8))
    }

    fn read_question(message: &[u8]) -> Option<Self> {
        let is_query = message[2] & 0x78 == 0; // OPCODE 0
        if !is_query || message[4..6] != [0, 1] {
            return None;
        }
        let (mut at, mut labels) = (HEADER, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            // 64 and above is a pointer, which a question does not need.
            let label = message.get(at..at + length).filter(|_| length < 64)?;
            labels.push(std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))?);
            at += length;
        }
        let name = labels.join(".").parse().ok()?;
        let &[t0, t1, c0, c1] = message.get(at..at + 4)? else { return None };
        let wanted = match (u16::from_be_bytes([t0, t1]), u16::from_be_bytes([c0, c1])) {
            (A, INTERNET) => Wanted::Ipv4,
            (AAAA, INTERNET) => Wanted::Ipv6,
            _ => Wanted::Other,
        };
        Some(Self { name, wanted, message: message[..at + 4].to_vec() })
    }

    /// The answer with those of the addresses that are wanted, as many as fit.
    #[must_use]
    pub fn answer(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let mut records = Vec::new();
        let mut count = 0;
        for address in addresses {
            let (kind, bytes) = match (self.wanted, address) {
                (Wanted::Ipv4, IpAddr::V4(address)) => (A, address.octets().to_vec()),
                (Wanted::Ipv6, IpAddr::V6(address)) => (AAAA, address.octets().to_vec()),
                _ => continue,
            };
            if self.message.len() + records.len() + HEADER + bytes.len() > MAX_ANSWER {
                break;
            }
            // The name of the question, by a pointer to it (RFC 1035 §4.1.4).
            records.extend_from_slice(&[0xc0, HEADER as u8]);
            records.extend_from_slice(&kind.to_be_bytes());
            records.extend_from_slice(&INTERNET.to_be_bytes());
            records.extend_from_slice(&TTL.to_be_bytes());
            records.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            records.extend_from_slice(&bytes);
            count += 1;
        }
        let mut answer = head(&self.message, (1, count), 0);
        answer.extend_from_slice(&self.message[HEADER..]);
        answer.extend_from_slice(&records);
        answer
    }

    /// The answer without addresses.
    #[must_use]
    pub fn fail(&self, failure: Failure) -> Vec<u8> {
        let mut answer = head(&self.message, (1, 0), failure as u8);
        answer.extend_from_slice(&self.message[HEADER..]);
        answer
    }
}

/// RFC 1035 §4.1.1, with the question's identifier and its wish for recursion.
fn head(question: &[u8], (questions, answers): (u16, u16), code: u8) -> Vec<u8> {
    let mut head = vec![question[0], question[1], 0x80 | question[2] & 0x01, 0x80 | code];
    for count in [questions, answers, 0, 0] {
        head.extend_from_slice(&count.to_be_bytes());
    }
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(label.len() as u8);
            message.extend_from_slice(label.as_bytes());
        }
        message.extend_from_slice(&[0, 0, kind as u8, 0, 1]);
        message
    }

    #[test]
    fn an_answer_has_the_addresses_that_are_wanted() {
        let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let question = Question::read(&query("Web.example.org", A)).unwrap();
        assert_eq!((question.name.as_str(), question.wanted), ("web.example.org", Wanted::Ipv4));
        let answer = question.answer(&addresses);
        assert_eq!(answer[..8], [0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1]);
        assert!(answer.ends_with(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 1]));
        let six = Question::read(&query("a", AAAA)).unwrap().answer(&addresses);
        assert!(
            six[7] == 1 && six.ends_with(&[0, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        );
        assert_eq!(Question::read(&query("a", 15)).unwrap().answer(&addresses)[7], 0, "no MX record");
        assert_eq!(question.fail(Failure::Name)[3], 0x83);
    }

    #[test]
    fn messages_that_are_no_question_for_a_name_are_refused() {
        let valid = query("a.org", A);
        let changed = |at: usize, byte: u8| {
            let mut message = valid.clone();
            message[at] = byte;
            Question::read(&message).unwrap_err()
        };
        assert_eq!(changed(2, 0x80), b"", "an answer");
        assert_eq!(changed(5, 2)[3], 0x81, "two questions");
        assert_eq!(changed(2, 0x28)[3], 0x81, "an update");
        assert_eq!(changed(12, 0xc0)[3], 0x81, "a pointer");
        assert_eq!(changed(13, b' ')[3], 0x81, "not a host name");
        for length in 0..valid.len() {
            assert!(Question::read(&valid[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read_and_answered(bytes in prop::collection::vec(any::<u8>(), 0..80), many in 0..100_u32) {
            let start = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for message in [bytes.clone(), [&start[..], &bytes].concat()] {
                let Ok(question) = Question::read(&message) else { continue };
                let addresses: Vec<IpAddr> = (0..many).map(|n| std::net::Ipv4Addr::from_bits(n).into()).collect();
                prop_assert!(question.answer(&addresses).len() <= MAX_ANSWER);
            }
        }
    }
}
