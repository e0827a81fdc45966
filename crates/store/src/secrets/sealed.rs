//! The format of the sealed file, version 1.
//!
//! The file has a header that describes the key, then a nonce, then the secrets as a JSON object, encrypted with
//! XChaCha20-Poly1305. The header is authenticated as well, so that an attacker cannot change the key derivation.
//! Each write uses a new random nonce.
//!
//! | bytes | content |
//! |---|---|
//! | 16 | `gladhand-secrets` |
//! | 1 | version |
//! | 1 | where the key is: 1 file, 2 passphrase, 3 keychain |
//! | 12 | Argon2id memory in KiB, passes and lanes, little-endian; 0 without a passphrase |
//! | 16 | Argon2id salt |
//! | 16 | a check value that only this key produces |
//! | 24 | nonce |
//! | rest | ciphertext with its tag |

use std::io;
use std::ops::RangeInclusive;

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use gladhand_core::Secret;
use zeroize::Zeroizing;

use super::KeyLocation;

const MAGIC: &[u8; 16] = b"gladhand-secrets";
const VERSION: u8 = 1;
/// The offset of the nonce.
const HEADER: usize = 62;
const NONCE: usize = 24;
const TAG: usize = 16;

/// The accepted cost parameters. Larger values only occur in a forged file that tries to waste time or memory.
const MEMORY: RangeInclusive<u32> = 8..=1024 * 1024;
const PASSES: RangeInclusive<u32> = 1..=64;
const LANES: RangeInclusive<u32> = 1..=16;

/// The key of a file.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key_location: KeyLocation,
    pub(super) derivation: KeyDerivation,
    key_check: [u8; TAG],
}

/// The parameters that derive a key from a passphrase (RFC 9106).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KeyDerivation {
    memory: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; 16],
}

/// Why a file cannot be read with any key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Newer(u8),
    Damaged(&'static str),
}

impl Header {
    /// The header of a new file with this key.
    pub(super) fn new(key_location: KeyLocation, derivation: KeyDerivation, key: &Key) -> Self {
        Self { key_location, derivation, key_check: key_check(key) }
    }

    /// Parses the header of a file.
    pub(super) fn read(sealed: &[u8]) -> Result<Self, Unreadable> {
        let Some(rest) = sealed.strip_prefix(MAGIC) else {
            return Err(Unreadable::Damaged("it does not start with `gladhand-secrets`"));
        };
        match rest.first() {
            Some(&VERSION) => {}
            Some(&newer) if newer > VERSION => return Err(Unreadable::Newer(newer)),
            _ => return Err(Unreadable::Damaged("it has no valid version")),
        }
        if sealed.len() < HEADER + NONCE + TAG {
            return Err(Unreadable::Damaged("it is truncated"));
        }
        let key_location = match sealed[17] {
            1 => KeyLocation::File,
            2 => KeyLocation::Passphrase,
            3 => KeyLocation::Keychain,
            _ => return Err(Unreadable::Damaged("it names an unknown kind of key")),
        };
        let number = |at: usize| u32::from_le_bytes(array(sealed, at));
        let derivation =
            KeyDerivation { memory: number(18), passes: number(22), lanes: number(26), salt: array(sealed, 30) };
        if key_location == KeyLocation::Passphrase && !derivation.is_sensible() {
            return Err(Unreadable::Damaged("its key derivation parameters are out of range"));
        }
        Ok(Self { key_location, derivation, key_check: array(sealed, 46) })
    }

    /// Whether this is the key of the file. The check value distinguishes a wrong key from a damaged file;
    /// decryption fails in the same way for both.
    pub(super) fn has_key(&self, key: &Key) -> bool {
        key_check(key) == self.key_check
    }

    /// Decrypts a file with this header.
    pub(super) fn open(&self, key: &Key, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Unreadable> {
        let nonce = XNonce::from(array::<NONCE>(sealed, HEADER));
        let payload = Payload { msg: &sealed[HEADER + NONCE..], aad: &sealed[..HEADER] };
        let plain = cipher(key).decrypt(&nonce, payload);
        plain.map(Zeroizing::new).map_err(|_| Unreadable::Damaged("its authentication tag does not match"))
    }

    /// Encrypts the content of a whole file with this header.
    pub(super) fn seal(&self, key: &Key, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut sealed = self.written();
        let nonce: [u8; NONCE] = random()?;
        let payload = Payload { msg: plain, aad: &sealed };
        let body = cipher(key).encrypt(&XNonce::from(nonce), payload);
        let body = body.map_err(|_| io::Error::other("too much data to encrypt"))?;
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&body);
        Ok(sealed)
    }

    fn written(&self) -> Vec<u8> {
        let key_location = match self.key_location {
            KeyLocation::File => 1,
            KeyLocation::Passphrase => 2,
            KeyLocation::Keychain => 3,
        };
        let mut header = MAGIC.to_vec();
        header.extend([VERSION, key_location]);
        for number in [self.derivation.memory, self.derivation.passes, self.derivation.lanes] {
            header.extend(number.to_le_bytes());
        }
        header.extend(self.derivation.salt);
        header.extend(self.key_check);
        header
    }
}

impl KeyDerivation {
    /// The default cost (64 MiB, three passes), with a random salt.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { memory: 64 * 1024, passes: 3, lanes: 1, salt: random()? })
    }

    /// Derives the key from a passphrase.
    pub(super) fn key(&self, passphrase: &Secret) -> io::Result<Key> {
        let params = Params::new(self.memory, self.passes, self.lanes, None).map_err(io::Error::other)?;
        let mut key = Key::default();
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon.hash_password_into(passphrase.expose().as_bytes(), &self.salt, &mut *key).map_err(io::Error::other)?;
        Ok(key)
    }

    fn is_sensible(&self) -> bool {
        MEMORY.contains(&self.memory)
            && PASSES.contains(&self.passes)
            && LANES.contains(&self.lanes)
            && self.memory >= 8 * self.lanes
    }
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&**key).into())
}

/// The tag of an empty message under the all-zero nonce, which is used for nothing else.
fn key_check(key: &Key) -> [u8; TAG] {
    let tag = cipher(key).encrypt(&XNonce::from([0; NONCE]), Payload::from(&[][..]));
    let tag = tag.expect("an empty message is not too long");
    array(&tag, 0)
}

/// The `N` bytes from this offset. The caller has checked the length.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Key, Header, Vec<u8>) {
        let key = Key::new([7; 32]);
        let header = Header::new(KeyLocation::File, KeyDerivation::default(), &key);
        let sealed = header.seal(&key, b"hush").unwrap();
        (key, header, sealed)
    }

    #[test]
    fn sealed_data_can_be_opened_and_each_write_differs() {
        let (key, header, sealed) = sample();
        assert_eq!(Header::read(&sealed).unwrap(), header);
        assert_eq!(header.open(&key, &sealed).unwrap().as_slice(), b"hush");
        assert!(!sealed.windows(4).any(|part| part == b"hush"));
        assert_ne!(sealed, sample().2);
        assert!(header.has_key(&key) && !header.has_key(&Key::new([8; 32])));
    }

    #[test]
    fn any_changed_or_missing_byte_is_detected() {
        let (key, _, sealed) = sample();
        let open = |bytes: &[u8]| Header::read(bytes).and_then(|header| header.open(&key, bytes).map(drop));
        assert_eq!(open(&sealed), Ok(()));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(open(&changed).is_err(), "byte {at} was changed, and the file still opens");
            assert!(open(&sealed[..at]).is_err(), "only {at} bytes are left, and the file still opens");
        }
    }

    #[test]
    fn a_later_version_and_invalid_costs_are_reported() {
        let (_, _, mut sealed) = sample();
        sealed[16] = 2;
        assert_eq!(Header::read(&sealed), Err(Unreadable::Newer(2)));
        sealed[16] = VERSION;
        sealed[17] = 2;
        for costs in [[0; 12], [0xff; 12]] {
            sealed[18..30].copy_from_slice(&costs);
            assert_eq!(
                Header::read(&sealed),
                Err(Unreadable::Damaged("its key derivation parameters are out of range"))
            );
        }
    }
}
