//! Generates damaged sessions: lines of a valid session, picked, repeated, cut, joined and damaged.

/// One change to a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    Replace(u16, u8),
    Insert(u16, u8),
    Delete(u16),
    Truncate(u16),
}

impl Damage {
    /// The damage encoded in three bytes.
    pub(crate) fn from_bytes([kind, at, byte]: [u8; 3]) -> Self {
        let at = u16::from(at) * 2 + u16::from(kind >> 7);
        match kind % 4 {
            0 => Self::Replace(at, byte),
            1 => Self::Insert(at, byte),
            2 => Self::Delete(at),
            _ => Self::Truncate(at),
        }
    }

    fn strike(self, line: &mut Vec<u8>) {
        let place = |at: u16, len: usize| if len == 0 { 0 } else { usize::from(at) % len };
        match self {
            Self::Replace(at, byte) if !line.is_empty() => {
                let at = place(at, line.len());
                line[at] = byte;
            }
            Self::Insert(at, byte) => line.insert(place(at, line.len() + 1), byte),
            Self::Delete(at) if !line.is_empty() => {
                line.remove(place(at, line.len()));
            }
            Self::Truncate(at) => line.truncate(place(at, line.len() + 1)),
            Self::Replace(..) | Self::Delete(_) => {}
        }
    }
}

/// The bytes of a session: each pick is a line of `good` and its damages.
pub(crate) fn session(good: &[&str], picks: &[(u8, Vec<Damage>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (pick, damages) in picks {
        let mut line = good[usize::from(*pick) % good.len()].as_bytes().to_vec();
        for damage in damages {
            damage.strike(&mut line);
        }
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
    }
    bytes
}

/// The session encoded in arbitrary bytes: four bytes per line, one damage each, every other line undamaged.
pub(crate) fn session_from(good: &[&str], bytes: &[u8]) -> Vec<u8> {
    let picks: Vec<_> = bytes
        .chunks_exact(4)
        .map(|chunk| {
            let damage = Damage::from_bytes([chunk[1], chunk[2], chunk[3]]);
            (chunk[0], if chunk[0] & 0x40 == 0 { vec![damage] } else { Vec::new() })
        })
        .collect();
    session(good, &picks)
}

/// Small pseudo-random numbers from a seed, for repeatable orders.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
