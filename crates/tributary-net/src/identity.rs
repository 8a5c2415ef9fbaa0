//! Key pairs of the ends: a server's, which its clients know, and one of each client, which the server's list names.
//!
//! A key is Ed25519 (RFC 8032). It signs the TLS handshake as a raw public key (RFC 7250), and a client's tickets. Tickets are
//! encrypted for the server: for that, its key is used in its Montgomery form for X25519 (RFC 7748 §4.1), as is usual
//! (libsodium, age). So are both keys of a pair of nodes whose protocol needs a key that both have
//! ([`PrivateKey::pair_key`]). The printed form is that of WireGuard: 32 bytes as base64. Not here: shared keys
//! ([`crate::key`]), and which clients a server admits ([`crate::clients`]).

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::agreement::{self, X25519};
use aws_lc_rs::digest::{SHA512, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use zeroize::Zeroizing;

use crate::key::{KEY_PREFIX, Key, KeyError, PRIVATE_PREFIX, secret_line};

/// Characters of 32 bytes as base64.
const DIGITS: usize = 44;
/// What precedes the 32 bytes of a key in its SubjectPublicKeyInfo (RFC 8410 §4).
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of a signature.
pub(crate) const SIGNATURE: usize = 64;

/// The public key of an end. Everybody may know it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// The private key of an end. Never printed by `Debug`, and overwritten when its last clone is dropped.
#[derive(Clone)]
pub struct PrivateKey(Arc<Secret>);

struct Secret {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl PublicKey {
    /// Reads the printed form; `place` names the text in errors.
    ///
    /// # Errors
    /// [`KeyError::NotPublic`], which does not repeat the text: it may be a secret.
    pub fn parse(text: &str, place: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let not_public = || KeyError::NotPublic { place: place.to_owned() };
        let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| not_public())?);
        Self::from_bytes(bytes[..].try_into().map_err(|_| not_public())?).ok_or_else(not_public)
    }

    /// The key with these bytes, if they are a point of the curve that is not of small order.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        let point = CompressedEdwardsY(bytes).decompress()?;
        (!point.is_small_order()).then_some(Self(bytes))
    }

    /// The 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key for X25519.
    pub(crate) fn montgomery(&self) -> [u8; 32] {
        let point = CompressedEdwardsY(self.0).decompress().expect("checked when the key was made");
        point.to_montgomery().to_bytes()
    }

    /// The key as TLS carries it.
    pub(crate) fn spki(&self) -> Vec<u8> {
        [&SPKI_HEAD[..], &self.0].concat()
    }

    pub(crate) fn from_spki(spki: &[u8]) -> Option<Self> {
        Self::from_bytes(spki.strip_prefix(&SPKI_HEAD)?.try_into().ok()?)
    }

    /// Whether its owner signed this message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text, "this")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl PrivateKey {
    /// A fresh key.
    ///
    /// # Errors
    /// [`KeyError::NoEntropy`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut *seed).map_err(|_| KeyError::NoEntropy)?;
        Ok(Self::of(seed))
    }

    /// The key with this seed, which must be secret and random.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::of(Zeroizing::new(seed))
    }

    fn of(seed: Zeroizing<[u8; 32]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).expect("every 32 bytes are a seed");
        let public = std::array::from_fn(|i| pair.public_key().as_ref()[i]);
        Self(Arc::new(Secret { seed, pair, public: PublicKey(public) }))
    }

    /// The line of a key file, without the newline.
    #[must_use]
    pub fn to_line(&self) -> Zeroizing<String> {
        // With its whole length from the beginning: growing would leave a copy behind.
        let mut line = Zeroizing::new(String::with_capacity(PRIVATE_PREFIX.len() + DIGITS));
        line.push_str(PRIVATE_PREFIX);
        STANDARD.encode_string(*self.0.seed, &mut line);
        line
    }

    /// Parses one line; `place` names it in errors.
    ///
    /// # Errors
    /// [`KeyError::MalformedPrivate`], and [`KeyError::IsShared`] for a shared key.
    pub fn parse(line: &str, place: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::MalformedPrivate { place: place.to_owned() };
        if line.trim().starts_with(KEY_PREFIX) {
            return Err(KeyError::IsShared { place: place.to_owned() });
        }
        let digits = line.trim().strip_prefix(PRIVATE_PREFIX).ok_or_else(malformed)?;
        let bytes = Zeroizing::new(STANDARD.decode(digits).map_err(|_| malformed())?);
        let mut seed = Zeroizing::new([0; 32]);
        if bytes.len() != seed.len() {
            return Err(malformed());
        }
        seed.copy_from_slice(&bytes);
        Ok(Self::of(seed))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError`] names the file and, where it applies, the line.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let (line, place) = secret_line(path)?;
        Self::parse(&line, &place)
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.0.public
    }

    /// The key of this end and `other` for a protocol that needs one shared by both: HKDF-SHA256 (RFC 5869) over the X25519
    /// (RFC 7748) of the two keys, with `label` as salt and both public keys as info, first that of the end that begins.
    /// `label` names the protocol and its version; `begins` says whether this end is the one that begins.
    ///
    /// Both ends compute the same key, and nobody without one of the two private keys can. It is the same each time, so a
    /// protocol that uses it has no forward secrecy. Who knows one of the two private keys can pose as either end to its owner.
    ///
    /// # Panics
    /// Never: neither key is a point of small order.
    #[must_use]
    pub fn pair_key(&self, other: &PublicKey, label: &[u8], begins: bool) -> Key {
        let own = agreement::PrivateKey::from_private_key(&X25519, &*self.scalar());
        let own = own.expect("every 32 bytes are a private key of X25519");
        let public = self.public();
        let (first, second) = if begins { (&public, other) } else { (other, &public) };
        let mut bytes = Zeroizing::new([0; 32]);
        let theirs = agreement::UnparsedPublicKey::new(&X25519, other.montgomery());
        let derived = agreement::agree(&own, theirs, (), |secret| {
            let info = [first.bytes().as_slice(), second.bytes()];
            let secret = Salt::new(HKDF_SHA256, label).extract(secret);
            let okm = secret.expand(&info, HKDF_SHA256).map_err(drop)?;
            okm.fill(&mut *bytes).map_err(drop)
        });
        derived.expect("neither key is of small order, and 32 bytes are within HKDF's limit");
        Key::from_bytes(*bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE] {
        let signature = self.0.pair.sign(message);
        std::array::from_fn(|i| signature.as_ref()[i])
    }

    /// The private key for X25519 that belongs to [`PublicKey::montgomery`] (RFC 8032 §5.1.5, step 1).
    pub(crate) fn scalar(&self) -> Zeroizing<[u8; 32]> {
        let hash = digest(&SHA512, &*self.0.seed);
        Zeroizing::new(std::array::from_fn(|i| hash.as_ref()[i]))
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {})", self.public())
    }
}

impl SigningKey for PrivateKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.public().spki().into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for PrivateKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(Self::sign(self, message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_private_ones_stay_secret() {
        let key = PrivateKey::generate().unwrap();
        let line = key.to_line();
        assert_eq!(PrivateKey::parse(&line, "test").unwrap().public(), key.public());
        assert!(!format!("{key:?}").contains(&line[PRIVATE_PREFIX.len()..]));
        let public = key.public();
        assert_eq!(public.to_string().len(), DIGITS);
        assert_eq!(PublicKey::parse(&public.to_string(), "test").unwrap(), public);
        assert_eq!(PublicKey::from_spki(&public.spki()), Some(public));
        let signature = key.sign(b"message");
        assert!(public.has_signed(b"message", &signature) && !public.has_signed(b"massage", &signature));
    }

    /// RFC 8032 §7.1, test 1.
    #[test]
    fn the_public_key_of_a_seed_is_that_of_the_standard() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let bytes = std::array::from_fn(|i| u8::from_str_radix(&seed[2 * i..2 * i + 2], 16).unwrap());
        let public = PrivateKey::from_seed(bytes).public();
        let printed: String = public.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(printed, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    }

    #[test]
    fn the_two_forms_of_a_key_for_x25519_belong_together() {
        use aws_lc_rs::agreement::{PrivateKey as Agreeing, X25519};
        let key = PrivateKey::from_seed([7; 32]);
        let agreeing = Agreeing::from_private_key(&X25519, &*key.scalar()).unwrap();
        assert_eq!(agreeing.compute_public_key().unwrap().as_ref(), key.public().montgomery());
    }

    /// The definition, written out with other code: X25519 of curve25519-dalek, HKDF as HMACs (RFC 5869 §2).
    #[test]
    fn the_key_of_a_pair_is_that_of_its_definition() {
        use aws_lc_rs::hmac::{HMAC_SHA256, Key as Mac, sign};
        use curve25519_dalek::MontgomeryPoint;
        let (begins, answers) = (PrivateKey::from_seed([7; 32]), PrivateKey::from_seed([8; 32]));
        let secret = MontgomeryPoint(answers.public().montgomery()).mul_clamped(*begins.scalar());
        let extracted = sign(&Mac::new(HMAC_SHA256, b"a protocol 1"), &secret.0);
        let info = [begins.public().bytes().as_slice(), answers.public().bytes(), &[1]].concat();
        let expected = sign(&Mac::new(HMAC_SHA256, extracted.as_ref()), &info);
        let key = begins.pair_key(&answers.public(), b"a protocol 1", true);
        assert_eq!(key.bytes(), expected.as_ref());
    }

    #[test]
    fn the_key_of_a_pair_is_the_same_at_both_ends_and_different_for_all_else() {
        let [one, two, three] = [1, 2, 3].map(|seed| PrivateKey::from_seed([seed; 32]));
        let key = one.pair_key(&two.public(), b"a protocol 1", true);
        assert_eq!(key, two.pair_key(&one.public(), b"a protocol 1", false));
        let others = [
            one.pair_key(&three.public(), b"a protocol 1", true),
            three.pair_key(&two.public(), b"a protocol 1", true),
            three.pair_key(&one.public(), b"a protocol 1", false),
            one.pair_key(&two.public(), b"a protocol 1", false),
            one.pair_key(&two.public(), b"a protocol 2", true),
        ];
        assert!(others.iter().all(|other| *other != key));
    }

    #[test]
    fn a_key_of_the_wrong_kind_is_named_without_its_text() {
        let (shared, private) =
            (Key::generate().unwrap().to_line(), PrivateKey::generate().unwrap().to_line());
        let error = PrivateKey::parse(&shared, "k:1").unwrap_err().to_string();
        assert!(error.contains("k:1 is a shared key") && error.contains("--shared-key"), "{error}");
        let error = Key::parse(&private, "k:1").unwrap_err().to_string();
        assert!(error.contains("k:1 is a private key") && error.contains("keygen --shared"), "{error}");
        for text in [&*private, &*shared, "", "AAAA", "é", &"A".repeat(DIGITS)] {
            let error = PublicKey::parse(text, "--server-key").unwrap_err().to_string();
            assert!(error.contains("--server-key is not") && error.contains("tributary pubkey"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
        // The neutral element: everybody can sign for it.
        let neutral = std::array::from_fn(|i| u8::from(i == 0));
        assert!(PublicKey::from_bytes(neutral).is_none());
        for line in ["tributary-private-1:", "tributary-private-1:AAAA", "tributary-private-2:", "x"] {
            let error = PrivateKey::parse(line, "k:3").unwrap_err().to_string();
            assert!(error.starts_with("k:3:") && error.contains("tributary keygen"), "{error}");
        }
    }
}
