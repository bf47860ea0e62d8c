//! Describes what can happen to a file at rest: every byte changed, every length, whole units gone, files
//! missing, swapped, from another time or another database (reliability, section 7.5).

use spanlith_testkit::Rng;

/// One way of damaging one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bits of the mask are flipped in the byte at an offset.
    Flip(usize, u8),
    /// The byte at an offset reads as this.
    Byte(usize, u8),
    /// Only so many bytes are left.
    Cut(usize),
    /// So many bytes follow: zeros, or noise from a seed.
    Grow(usize, Option<u64>),
    /// A unit of this size, by number, reads as zeros.
    ZeroUnit(usize, usize),
    /// A unit of this size, by number, reads as noise.
    NoiseUnit(usize, usize),
    /// A unit of this size, by number, reads as the one after it.
    TwinUnit(usize, usize),
    /// The file is not there.
    Missing,
    /// It holds what another file of its kind in the same directory holds.
    Swapped(String),
    /// It holds what it held earlier.
    Older,
    /// It holds what a file of its kind in another database holds.
    Foreign,
}

impl Damage {
    /// The class that reports count it under.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Flip(..) => "bit",
            Self::Byte(..) => "byte",
            Self::Cut(_) => "cut",
            Self::Grow(..) => "grown",
            Self::ZeroUnit(..) | Self::NoiseUnit(..) | Self::TwinUnit(..) => "unit",
            Self::Missing => "missing",
            Self::Swapped(_) => "swapped",
            Self::Older => "older",
            Self::Foreign => "foreign",
        }
    }
}

/// Describes what other contents a file may be given.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// Files of the same kind beside it.
    pub twins: Vec<(String, Vec<u8>)>,
    /// Says what it held at an earlier time.
    pub older: Option<Vec<u8>>,
    /// A file of its kind of another database.
    pub foreign: Option<Vec<u8>>,
}

const UNITS: [usize; 2] = [512, 4096];
const GROWTH: [(usize, bool); 6] = [
    (1, false),
    (7, false),
    (4096, false),
    (1, true),
    (7, true),
    (512, true),
];
/// Eight bits, all clear, all set.
const PER_BYTE: usize = 10;

/// How many cases a file of `len` bytes has.
pub fn count(len: usize, others: &Others) -> usize {
    let units: usize = UNITS.iter().map(|u| len.div_ceil(*u) * 3).sum();
    len * PER_BYTE
        + len
        + GROWTH.len()
        + units
        + 1
        + others.twins.len()
        + usize::from(others.older.is_some())
        + usize::from(others.foreign.is_some())
}

/// Case `n` of a file, below [`count`].
pub fn nth(len: usize, others: &Others, mut n: usize) -> Damage {
    if n < len * PER_BYTE {
        let (at, what) = (n / PER_BYTE, n % PER_BYTE);
        return match what {
            8 => Damage::Byte(at, 0),
            9 => Damage::Byte(at, 0xff),
            bit => Damage::Flip(at, 1 << bit),
        };
    }
    n -= len * PER_BYTE;
    if n < len {
        return Damage::Cut(n);
    }
    n -= len;
    if let Some((by, noise)) = GROWTH.get(n) {
        return Damage::Grow(*by, noise.then_some(n as u64));
    }
    n -= GROWTH.len();
    for unit in UNITS {
        let units = len.div_ceil(unit) * 3;
        if n < units {
            return match n % 3 {
                0 => Damage::ZeroUnit(unit, n / 3),
                1 => Damage::NoiseUnit(unit, n / 3),
                _ => Damage::TwinUnit(unit, n / 3),
            };
        }
        n -= units;
    }
    if n == 0 {
        return Damage::Missing;
    }
    n -= 1;
    if let Some((name, _)) = others.twins.get(n) {
        return Damage::Swapped(name.clone());
    }
    n -= others.twins.len();
    if n == 0 && others.older.is_some() {
        return Damage::Older;
    }
    Damage::Foreign
}

/// The file after the damage; `None` if it is gone.
pub fn apply(bytes: &[u8], damage: &Damage, others: &Others) -> Option<Vec<u8>> {
    let mut out = bytes.to_vec();
    let span = |unit: usize, n: usize| {
        let from = (unit * n).min(bytes.len());
        from..(from + unit).min(bytes.len())
    };
    match damage {
        Damage::Flip(at, mask) => out[*at] ^= mask,
        Damage::Byte(at, value) => out[*at] = *value,
        Damage::Cut(len) => out.truncate(*len),
        Damage::Grow(by, noise) => match noise {
            None => out.resize(bytes.len() + by, 0),
            Some(seed) => {
                let mut rng = Rng::new(*seed ^ bytes.len() as u64);
                out.extend((0..*by).map(|_| rng.next_u64() as u8));
            }
        },
        Damage::ZeroUnit(unit, n) => out[span(*unit, *n)].fill(0),
        Damage::NoiseUnit(unit, n) => {
            let mut rng = Rng::new((*n * *unit) as u64);
            out[span(*unit, *n)].fill_with(|| rng.next_u64() as u8);
        }
        Damage::TwinUnit(unit, n) => {
            let (here, next) = (span(*unit, *n), span(*unit, *n + 1));
            let len = here.len().min(next.len());
            out[here.start..here.start + len].copy_from_slice(&bytes[next.start..next.start + len]);
        }
        Damage::Missing => return None,
        Damage::Swapped(name) => {
            let twin = others.twins.iter().find(|(n, _)| n == name);
            return twin.map(|(_, b)| b.clone());
        }
        Damage::Older => return others.older.clone(),
        Damage::Foreign => return others.foreign.clone(),
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_a_file_is_there_once_and_is_what_it_says() {
        let bytes: Vec<u8> = (0..700u32).map(|i| i as u8).collect();
        let others = Others {
            twins: vec![("a".into(), vec![1]), ("b".into(), vec![2])],
            older: Some(vec![3]),
            foreign: Some(vec![4]),
        };
        let cases: Vec<Damage> = (0..count(bytes.len(), &others))
            .map(|n| nth(bytes.len(), &others, n))
            .collect();
        for (n, case) in cases.iter().enumerate() {
            assert!(!cases[n + 1..].contains(case), "{case:?} twice");
        }
        let of = |class: &str| cases.iter().filter(|c| c.class() == class).count();
        assert_eq!((of("bit"), of("byte"), of("cut")), (5600, 1400, 700));
        assert_eq!((of("unit"), of("grown"), of("missing")), (9, 6, 1));
        assert_eq!((of("swapped"), of("older"), of("foreign")), (2, 1, 1));
        let after = |d: Damage| apply(&bytes, &d, &others);
        assert_eq!(after(Damage::Swapped("b".into())), Some(vec![2]));
        assert_eq!(
            (after(Damage::Older), after(Damage::Foreign)),
            (Some(vec![3]), Some(vec![4]))
        );
        assert_eq!(after(Damage::Cut(5)).unwrap(), &bytes[..5]);
        assert_eq!(after(Damage::Missing), None);
        assert_eq!(
            &after(Damage::TwinUnit(512, 0)).unwrap()[..188],
            &bytes[512..]
        );
    }
}
