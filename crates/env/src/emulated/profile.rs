//! Kinds of devices. The figures are those of the devices that the document on speed disks measured (its table 2 and
//! section 2.3), with read latencies and numbers of channels that vendors give or that its figures show. Random writes to
//! flash and reads beside writes are fitted to what the document on 3D XPoint measured with 8 threads that read and
//! write 4 KiB at random places (its figure 1): 26 and 408 thousand requests per second on S and O.

/// How fast a device is, and what it forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its letter.
    pub name: &'static str,
    /// Says what it stands for.
    pub what: &'static str,
    /// Nanoseconds of a write of 4 KiB by itself.
    pub write_nanos: u64,
    /// Nanoseconds of a read of 4 KiB by itself.
    pub read_nanos: u64,
    /// Bytes per second.
    pub write_bandwidth: u64,
    /// Bytes per second.
    pub read_bandwidth: u64,
    /// Requests that it works on at once.
    pub channels: usize,
    /// Says whether a completed write may be lost with the power before a flush.
    pub is_volatile: bool,
    /// Nanoseconds of a flush; of what a durable write takes longer, where the cache is volatile.
    pub flush_nanos: u64,
    /// Nanoseconds more for an address that does not follow the last one.
    pub seek_nanos: u64,
    /// Nanoseconds more for such a read, which nothing hides.
    pub read_seek_nanos: u64,
    /// Nanoseconds more for a small write that continues none of the last writes: what a translation layer pays for
    /// it in the long run.
    pub random_write_nanos: u64,
    /// How much a read takes longer, in percent, when all channels write.
    pub mix_percent: u64,
    /// Data members of a RAID5 with one more for parity; 0: a single device.
    pub raid_members: u64,
}

const SINGLE: Profile = Profile {
    name: "",
    what: "",
    write_nanos: 0,
    read_nanos: 0,
    write_bandwidth: 0,
    read_bandwidth: 0,
    channels: 1,
    is_volatile: true,
    flush_nanos: 0,
    seek_nanos: 0,
    read_seek_nanos: 0,
    random_write_nanos: 0,
    mix_percent: 0,
    raid_members: 0,
};

/// Devices by letter.
const PROFILES: [Profile; 5] = [
    Profile {
        name: "H",
        what: "hard disk",
        write_nanos: 200_000,
        read_nanos: 200_000,
        write_bandwidth: 110_000_000,
        read_bandwidth: 110_000_000,
        flush_nanos: 4_000_000,
        seek_nanos: 4_000_000,
        read_seek_nanos: 3_800_000,
        ..SINGLE
    },
    Profile {
        name: "S",
        what: "SATA flash",
        write_nanos: 37_000,
        read_nanos: 36_000,
        write_bandwidth: 510_000_000,
        read_bandwidth: 550_000_000,
        channels: 8,
        flush_nanos: 400_000,
        random_write_nanos: 490_000,
        mix_percent: 200,
        ..SINGLE
    },
    Profile {
        name: "N1",
        what: "NVMe flash (P4510)",
        write_nanos: 18_000,
        read_nanos: 77_000,
        write_bandwidth: 2_900_000_000,
        read_bandwidth: 3_000_000_000,
        channels: 24,
        is_volatile: false,
        mix_percent: 100,
        ..SINGLE
    },
    Profile {
        name: "N2",
        what: "NVMe flash (P4610)",
        write_nanos: 18_000,
        read_nanos: 77_000,
        write_bandwidth: 2_080_000_000,
        read_bandwidth: 3_200_000_000,
        channels: 8,
        is_volatile: false,
        mix_percent: 100,
        ..SINGLE
    },
    Profile {
        name: "O",
        what: "3D XPoint (P4800X)",
        write_nanos: 10_000,
        read_nanos: 10_000,
        write_bandwidth: 2_000_000_000,
        read_bandwidth: 2_400_000_000,
        channels: 6,
        is_volatile: false,
        mix_percent: 255,
        ..SINGLE
    },
];

impl Profile {
    /// Every device that has a name: `H`, `S`, `N1`, `N2`, `O`, and `H-RAID5` and `S-RAID5`, four members and one of
    /// parity.
    pub fn all() -> Vec<Self> {
        let mut all = PROFILES.to_vec();
        for (letter, name) in [("H", "H-RAID5"), ("S", "S-RAID5")] {
            let single = PROFILES.iter().find(|p| p.name == letter);
            all.extend(single.map(|p| p.raid5(name)));
        }
        all
    }

    /// The names of all, as messages list them.
    pub fn names() -> String {
        let names: Vec<&str> = Self::all().iter().map(|p| p.name).collect();
        names.join(", ")
    }

    /// The device of a name, whatever its case.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::all().into_iter();
        all.find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// Four members and one of parity.
    fn raid5(&self, name: &'static str) -> Self {
        const MEMBERS: u64 = 4;
        Self {
            name,
            write_bandwidth: self.write_bandwidth * MEMBERS,
            read_bandwidth: self.read_bandwidth * MEMBERS,
            channels: self.channels * MEMBERS as usize,
            raid_members: MEMBERS,
            ..*self
        }
    }

    /// The same latencies with a share of the bandwidth, for a machine with fewer cores.
    #[must_use]
    pub fn scaled(&self, percent: u64) -> Self {
        let of = |n: u64| (n / 100).saturating_mul(percent).max(1);
        Self {
            write_bandwidth: of(self.write_bandwidth),
            read_bandwidth: of(self.read_bandwidth),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!(Profile::by_name("o").unwrap().what, "3D XPoint (P4800X)");
        let raid = Profile::by_name("s-raid5").unwrap();
        assert_eq!((raid.channels, raid.write_bandwidth), (32, 2_040_000_000));
        assert!(Profile::by_name("X").is_none());
        let scaled = Profile::by_name("O").unwrap().scaled(5);
        assert_eq!(scaled.write_bandwidth, 100_000_000);
        assert_eq!(scaled.write_nanos, 10_000);
    }
}
