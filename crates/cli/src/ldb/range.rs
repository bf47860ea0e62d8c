//! Describes what `scan`, `dump` and `idump` have in common: times and counts by prefix.

use super::args::Args;
use super::{Ldb, Stop};
use spanlith_base::byte_text::bytes_of_text;
use std::io::Write;

/// Times that a database with times can hold: its first and last second.
const TIME_MIN: i64 = 1_368_146_402;
const TIME_MAX: i64 = 2_147_483_647;

/// Times of entries that are shown: from the first, before the second.
#[derive(Clone, Copy)]
pub struct Times {
    pub from: i64,
    pub to: i64,
}

impl Times {
    /// As the options say.
    pub fn of(args: &Args) -> Result<Self, Stop> {
        let number = |name: &str, default: i64| -> Result<i64, Stop> {
            let n = args.number(name)?;
            Ok(n.map_or(default, |n| i64::try_from(n).unwrap_or(i64::MAX)))
        };
        Ok(Self {
            from: number("start_time", TIME_MIN)?,
            to: number("end_time", TIME_MAX)?,
        })
    }

    /// The time after a stored value, if it is one of those.
    pub fn take(self, stored: &[u8]) -> Option<i64> {
        let tail = stored.last_chunk::<4>()?;
        let time = i64::from(i32::from_le_bytes(*tail));
        (self.from..self.to).contains(&time).then_some(time)
    }
}

/// A time as `ctime` prints it, in universal time.
pub fn time_text(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    // Days from 1 March of year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar = (month + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(calendar < 2);
    let name = |list: &'static [&'static str], n: i64| {
        let at = usize::try_from(n).unwrap_or(0);
        list.get(at).copied().unwrap_or("")
    };
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year}",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, calendar),
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Counts and sizes of entries whose keys share what stands before a delimiter.
pub struct Groups {
    delimiter: u8,
    current: Option<(Vec<u8>, u64, u64)>,
}

impl Groups {
    /// If the options ask for them.
    pub fn of(args: &Args) -> Option<Self> {
        let text = args.option("count_delim");
        let delimiter = match text {
            Some(text) => *bytes_of_text(text).first()?,
            None if args.is("count_delim") => b'.',
            None => return None,
        };
        Some(Self {
            delimiter,
            current: None,
        })
    }

    /// Takes an entry; prints the group before if it begins another.
    pub fn add(&mut self, key: &[u8], size: u64, ldb: &mut Ldb) -> std::io::Result<()> {
        let end = key.iter().position(|b| *b == self.delimiter);
        let head = &key[..end.unwrap_or(key.len())];
        match &mut self.current {
            // An entry without a name yet takes that of the next, as the reference does it.
            Some((group, count, bytes)) if group == head || group.is_empty() => {
                *group = head.to_vec();
                *count += 1;
                *bytes += size;
                Ok(())
            }
            _ => {
                self.finish(ldb)?;
                self.current = Some((head.to_vec(), 1, size));
                Ok(())
            }
        }
    }

    /// Prints the last group.
    pub fn finish(&mut self, ldb: &mut Ldb) -> std::io::Result<()> {
        let Some((group, count, bytes)) = self.current.take() else {
            return Ok(());
        };
        ldb.out.write_all(&ldb.args.show_key(&group))?;
        writeln!(ldb.out, " => count:{count}\tsize:{bytes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_ctime_prints_them() {
        assert_eq!(time_text(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(time_text(TIME_MIN), "Fri May 10 00:40:02 2013");
        assert_eq!(time_text(TIME_MAX), "Tue Jan 19 03:14:07 2038");
        assert_eq!(time_text(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(time_text(-1), "Wed Dec 31 23:59:59 1969");
    }

    #[test]
    fn a_time_is_taken_from_the_end_of_a_value() {
        let times = Times { from: 5, to: 9 };
        assert_eq!(times.take(b"x\x05\0\0\0"), Some(5));
        assert_eq!(times.take(b"x\x09\0\0\0"), None);
        assert_eq!(times.take(b"abc"), None);
    }
}
