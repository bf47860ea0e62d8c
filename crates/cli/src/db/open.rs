//! Opens the database that the command line names.
//!
//! Comparators, merge operators and the directory of the logs are found in the MANIFEST, the newest
//! OPTIONS file and, where that is missing or not understood, in the properties of the tables; flags
//! have the last word. For reading only the family asked for is opened (and the default one, which
//! every open needs), with default options, because those change no result. For writing all families
//! are opened as the OPTIONS file says, so that the tool does not change how they are written.

use super::components::{ComparatorFlag, MergeFlag, Recorded, user_text};
use super::mend::has_records;
use super::remake::remake;
use crate::dump::kind::{self, Kind};
use crate::fail::{At, Failure, Usage};
use crate::inventory::Inventory;
use crate::own::OwnFlags;
use crate::places::{FileFlags, Places};
use crate::tables;
use clap::Args;
use spanlith::options::ini::ParsedCf;
use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, FilterPolicyChoice, ParsedOptions, Sidecar,
    SyncedLogDamage, WalRecoveryMode, objects,
};
use spanlith::ttl::{TimedMerge, append_time, without_time};
use spanlith::version::filenames;
use spanlith::{
    Cf, Comparator, Db, ErrorKind, FamilyOptions, MergeOperator, OpenBuilder, Unfolded,
};
use spanlith_env::Env;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// How OPTIONS files name Bloom filters of which they do not say the bits per key.
const BARE_BLOOM: [&str; 2] = ["bloomfilter", "rocksdb.BuiltinBloomFilter"];
/// Bits per key if no table tells, as most programs ask for.
const BLOOM_BITS: u64 = 10;
/// Keys in a filter from which on its size tells the bits per key.
const FILTER_ENTRIES_MIN: u64 = 1000;

/// Which database and family, and what a program would have to say to open it.
#[derive(Debug, Args)]
pub struct Target {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cf: String,
    #[command(flatten)]
    pub how: How,
}

/// Describes what the files do not say, or say wrong.
#[derive(Clone, Debug, Default, Args)]
pub struct How {
    /// Order of keys if not as the directory says: bytewise, reverse, or a full name; NAME=bytewise
    /// says how the comparator recorded as NAME orders (may be repeated)
    #[arg(long, value_name = "[NAME=]KIND")]
    comparator: Vec<String>,
    /// Merge operator if not as the directory says: uint64add, stringappend[:DELIMITER], max, …,
    /// none; NAME=uint64add says what the operator recorded as NAME does (may be repeated)
    #[arg(long, value_name = "[NAME=]KIND")]
    merge_operator: Vec<String>,
    #[command(flatten)]
    pub files: FileFlags,
    /// Values end in four bytes of time, as a TTL database writes them
    #[arg(long)]
    pub ttl: bool,
}

/// Flags of the verbs that write.
#[derive(Debug, Args)]
pub struct WriteFlags {
    /// Makes the database, or the column family, if there is none
    #[arg(long)]
    pub create: bool,
    /// Opens with default options instead of those in the OPTIONS file
    #[arg(long)]
    pub default_options: bool,
    /// Opens although synced bytes of logs are damaged, and drops what lies after the damage, of
    /// which lost/ keeps a copy
    #[arg(long)]
    pub give_up_damage: bool,
    #[command(flatten)]
    pub own: OwnFlags,
}

impl WriteFlags {
    /// Of a database that is there and opens as it is.
    pub fn plain() -> Self {
        Self {
            create: false,
            default_options: false,
            give_up_damage: false,
            own: OwnFlags::default(),
        }
    }
}

/// Describes what a family is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Its entries are read.
    Read,
    /// It has to be there and is not looked at: what is not known of it does not matter.
    Aside,
    /// It is written, perhaps only by flushes and compactions.
    Write,
}

/// Describes what a directory says about its options.
struct Known<'a> {
    dir: &'a Path,
    inventory: Option<Inventory>,
    comparators: Vec<ComparatorFlag>,
    merges: Vec<MergeFlag>,
    places: Places,
}

impl Known<'_> {
    fn parsed(&self) -> Option<&ParsedOptions> {
        let options = self.inventory.as_ref()?.options.as_ref()?;
        options.parsed.as_ref().ok()
    }

    fn cf(&self, family: &str) -> Option<&ParsedCf> {
        self.parsed()?.cf(family)
    }

    /// Name of the comparator; empty if nobody says.
    fn comparator(&self, family: &str) -> &str {
        let found = self.inventory.as_ref().and_then(|i| i.family(family));
        found.map_or("", |f| &f.comparator)
    }

    /// The options of a family's tables. RocksDB writes Bloom filters that came through its C API
    /// without their bits per key; the tables tell what they were made with.
    fn table_options(&self, family: &str, cf: &ParsedCf) -> BlockBasedTableOptions {
        let mut table = cf.table.clone();
        if BARE_BLOOM.contains(&table.filter_policy.as_str()) {
            let properties = self
                .inventory
                .as_ref()
                .and_then(|i| i.table_properties(family));
            let bits = properties
                .filter(|p| p.num_filter_entries >= FILTER_ENTRIES_MIN)
                .map(|p| p.filter_size.saturating_mul(8) / p.num_filter_entries)
                .filter(|bits| (1..=100).contains(bits));
            table.filter_policy = format!("bloomfilter:{}:false", bits.unwrap_or(BLOOM_BITS));
        }
        table
    }

    /// Text of the merge operator; empty if there is none or nobody says.
    fn merge_operator(&self, family: &str) -> String {
        let inventory = self.inventory.as_ref();
        inventory.map_or_else(String::new, |i| i.merge_operator(family))
    }
}

impl Target {
    /// Opens for reading; changes nothing on disk.
    pub fn open_read_only(&self) -> anyhow::Result<Cf> {
        self.open_for_reading(&Env::system(), false)
    }

    /// Opens for reading on another file system, with all that can be read of damaged logs.
    pub fn open_damaged(&self, env: &Env) -> anyhow::Result<Cf> {
        self.open_for_reading(env, true)
    }

    fn open_for_reading(&self, env: &Env, is_damaged: bool) -> anyhow::Result<Cf> {
        let known = self.known(env, false)?;
        let mut options = DbOptions::default();
        options.wal_dir = self.wal_dir(&known)?;
        // Nothing is written, and families that forget timestamps ask for it.
        options.allow_concurrent_memtable_write = false;
        // Sections that a transaction left undecided are set aside. That replays older logs, too,
        // so where the options are known they decide.
        options.allow_2pc = known.parsed().is_none_or(|p| p.db.allow_2pc);
        if let Some(p) = known.parsed() {
            options.wal_recovery_mode = p.db.wal_recovery_mode;
        }
        if is_damaged {
            options.wal_recovery_mode = WalRecoveryMode::SkipAnyCorruptedRecords;
        }
        if let Some(own) = own_options(&self.db) {
            options.own = own.db;
        }
        if is_damaged {
            options.own.synced_log_damage = SyncedLogDamage::Truncate;
        }
        let mut write_prepared = false;
        loop {
            let builder = Db::builder(&self.db).options(options.clone());
            let mut builder = builder.env(env.clone());
            if !known.places.db.is_empty() {
                builder = builder.db_paths(known.places.db.clone());
            }
            if write_prepared {
                builder = builder.write_prepared();
            }
            for name in ["default", self.cf.as_str()] {
                let mut family = FamilyOptions::new(name);
                if let Some(cf) = known.cf(name) {
                    let mut o = spanlith::options::CfOptions::default();
                    o.num_levels = cf.options.num_levels;
                    o.persist_user_defined_timestamps = cf.options.persist_user_defined_timestamps;
                    family = family.options(o);
                }
                // Of the default family only the order matters if another one is asked for.
                let purpose = match name == self.cf {
                    true => Purpose::Read,
                    false => Purpose::Aside,
                };
                builder = builder.family(self.components(family, &known, purpose)?);
            }
            match builder.open_read_only() {
                Err(e)
                    if e.kind() == ErrorKind::NotSupported
                        && e.message().contains("prepared transactions")
                        && !options.allow_2pc =>
                {
                    options.allow_2pc = true;
                }
                // No file names the policy but the kinds of records do.
                Err(e)
                    if e.kind() == ErrorKind::NotSupported
                        && e.message().starts_with("WritePrepared")
                        && !write_prepared =>
                {
                    write_prepared = true;
                }
                other => return self.family(&other.at(&self.db)?),
            }
        }
    }

    /// Opens for reading and writing.
    pub fn open_read_write(&self, flags: &WriteFlags) -> anyhow::Result<Cf> {
        let (builder, followed, known) = self.builder(flags)?;
        if let Err(e) = builder.check()
            && followed
            && e.kind() == ErrorKind::NotSupported
        {
            return Err(Failure::new(
                e.to_string(),
                "the OPTIONS file asks for it; --default-options opens with defaults instead and \
                 writes a new OPTIONS file, which RocksDB then follows",
            )
            .into());
        }
        let db = builder.open().at(&self.db)?;
        if flags.create && db.cf(&self.cf).is_none() {
            let mut family = FamilyOptions::new(&self.cf);
            family = family.set_of_family(&flags.own.text()?)?;
            let family = self.components(family, &known, Purpose::Write)?;
            return db.create_cf(family).at(&self.db);
        }
        self.family(&db)
    }

    /// The order of the family's keys, as a flag or the directory says.
    pub fn order(&self, i: &Inventory) -> anyhow::Result<Comparator> {
        let recorded = i.family(&self.cf).map_or("", |f| &f.comparator);
        let flags: Vec<ComparatorFlag> = parse_all(&self.how.comparator)?;
        let mut flags = flags.iter().rev();
        let flag = flags.find(|f| f.recorded.as_ref().is_none_or(|r| r == recorded));
        Ok(match flag {
            Some(flag) => flag.comparator(),
            None => super::verify::comparator_or_stand_in(recorded),
        })
    }

    /// Opens for writing with another number of levels, which the OPTIONS file then records.
    pub fn open_with_levels(&self, levels: i32) -> anyhow::Result<Cf> {
        let flags = WriteFlags::plain();
        let (builder, _, known) = self.builder(&flags)?;
        let mut family = FamilyOptions::new(&self.cf);
        let (mut options, mut table) = Default::default();
        if let Some(cf) = known.cf(&self.cf) {
            (options, table) = (cf.options.clone(), known.table_options(&self.cf, cf));
        }
        options.num_levels = levels;
        options.own = own_options(&self.db).unwrap_or_default().family(&self.cf);
        family = family.options(options).table_options(table);
        let family = self.components(family, &known, Purpose::Write)?;
        self.family(&builder.family(family).open().at(&self.db)?)
    }

    /// The options of the family, for tables that it is to take in. The database is not opened.
    pub fn family_options(&self) -> anyhow::Result<FamilyOptions> {
        let known = self.known(&Env::system(), false)?;
        if known.inventory.is_none() {
            let text = format!("{}: there is no database", self.db.display());
            return Err(Failure::new(text, "check the path").into());
        }
        let mut family = FamilyOptions::new(&self.cf);
        if let Some(cf) = known.cf(&self.cf) {
            let table = known.table_options(&self.cf, cf);
            let own = own_options(&self.db).unwrap_or_default().family(&self.cf);
            family = family.options(cf.options.clone().own(own));
            family = family.table_options(table);
        }
        self.components(family, &known, Purpose::Write)
    }

    /// Refuses changes that the options of the family, or of the `database`, do not allow. Nothing is opened.
    ///
    /// # Errors
    /// What setting them would say; of a directory or family that is not there.
    pub fn check_changes(&self, changes: &[(&str, &str)], database: bool) -> anyhow::Result<()> {
        let known = self.known(&Env::system(), false)?;
        if database {
            let options = known
                .parsed()
                .map_or_else(DbOptions::default, |p| p.db.clone());
            options.with_changes(changes)?;
            return Ok(());
        }
        known_filters(changes)?;
        let cf = known.cf(&self.cf);
        let (options, table) = cf.map_or_else(Default::default, |cf| {
            (cf.options.clone(), known.table_options(&self.cf, cf))
        });
        options.with_changes(&table, changes)?;
        Ok(())
    }

    /// Refuses files that are no tables of the family's order. Nothing is opened but the files.
    ///
    /// # Errors
    /// Of the first that is none.
    pub fn check_tables(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        let known = self.known(&Env::system(), true)?;
        let recorded = known.comparator(&self.cf).to_string();
        for file in files {
            if let Some((what, next)) = kind::is_another(file, Kind::Table) {
                return Err(Failure::new(what, format!("no file was taken in; {next}")).into());
            }
            let hint = format!(
                "no file was taken in; spanlith sst verify {} shows whether it is whole",
                crate::fail::shell_word(file)
            );
            let reader =
                crate::dump::open_table(file).map_err(|e| Failure::new(e.to_string(), hint))?;
            let own = &reader.properties().comparator_name;
            if !recorded.is_empty() && !own.is_empty() && *own != recorded {
                let text = format!(
                    "Invalid argument: {}: its keys are in the order {own}, those of family {} in {recorded}",
                    file.display(),
                    self.cf
                );
                return Err(Failure::new(
                    text,
                    "write the table again, in the order of the family",
                )
                .into());
            }
        }
        Ok(())
    }

    /// Returns what [`Self::open_read_write`] opens with, for who wants to change it first.
    pub fn prepare_read_write(&self, flags: &WriteFlags) -> anyhow::Result<OpenBuilder> {
        Ok(self.builder(flags)?.0)
    }

    /// Returns what a directory is repaired with: its families as far as anything tells them, without the MANIFEST by
    /// the tables. `None` if no file of a database is there.
    pub fn prepare_repair(&self, flags: &WriteFlags) -> anyhow::Result<Option<OpenBuilder>> {
        let wal_dir = self.how.files.wal_dir.as_deref();
        let found = Inventory::read_leniently(&self.db, wal_dir).at(&self.db)?;
        let Some(mut inventory) = found else {
            return Ok(None);
        };
        if !has_records(&inventory)
            && let Some(remade) = remake(&inventory).at(&self.db)?
        {
            inventory = remade.inventory;
        }
        let known = Known {
            dir: &self.db,
            inventory: Some(inventory),
            comparators: parse_all(&self.how.comparator)?,
            merges: parse_all(&self.how.merge_operator)?,
            places: self.how.files.tables.parse()?,
        };
        Ok(Some(self.builder_of(flags, &known)?.0))
    }

    /// All families as the OPTIONS file says, whether it was followed, and what the directory says.
    fn builder(&self, flags: &WriteFlags) -> anyhow::Result<(OpenBuilder, bool, Known<'_>)> {
        let known = self.known(&Env::system(), flags.create)?;
        let (builder, followed) = self.builder_of(flags, &known)?;
        Ok((builder, followed, known))
    }

    /// All families of what is known as the OPTIONS file says, and whether it was followed.
    fn builder_of(
        &self,
        flags: &WriteFlags,
        known: &Known<'_>,
    ) -> anyhow::Result<(OpenBuilder, bool)> {
        let mut builder = Db::builder(&self.db);
        let mut followed = false;
        let mut options = DbOptions::default();
        if !flags.default_options
            && let Some(file) = known.inventory.as_ref().and_then(|i| i.options.as_ref())
        {
            let parsed = file.parsed.as_ref().map_err(|e| {
                Failure::new(
                    format!("{}: {e}", file.name),
                    "--default-options opens without the OPTIONS file",
                )
            })?;
            options = parsed.db.clone();
            options.error_if_exists = false;
            options.create_missing_column_families = false;
            followed = true;
        }
        options.wal_dir = self.wal_dir(known)?;
        let own = own_options(&self.db).filter(|_| !flags.default_options);
        let own = own.unwrap_or_default();
        options.own = own.db.clone();
        if flags.give_up_damage {
            options.own.synced_log_damage = SyncedLogDamage::Truncate;
        }
        builder = builder.options(options).create_if_missing(flags.create);
        builder = flags.own.apply(builder)?;
        if !known.places.db.is_empty() {
            builder = builder.db_paths(known.places.db.clone());
        }
        let families = known.inventory.iter().flat_map(|i| i.families.values());
        let names: Vec<&str> = families.map(|f| f.name.as_str()).collect();
        for name in names {
            let mut family = FamilyOptions::new(name);
            let mut options = CfOptions::default();
            if let Some(cf) = known.cf(name).filter(|_| followed) {
                options = cf.options.clone();
                family = family.table_options(known.table_options(name, cf));
            }
            family = family.options(options.own(own.family(name)));
            builder = builder.family(self.components(family, known, Purpose::Write)?);
        }
        if known.inventory.is_none() {
            let default = FamilyOptions::new("default");
            builder = builder.family(self.components(default, known, Purpose::Write)?);
        }
        Ok((builder, followed))
    }

    /// Reads what the directory says; refuses a family it does not have, unless it may be made.
    fn known(&self, env: &Env, may_create: bool) -> anyhow::Result<Known<'_>> {
        // A command line that makes no sense is refused first.
        let comparators = parse_all(&self.how.comparator)?;
        let merges = parse_all(&self.how.merge_operator)?;
        let places = self.how.files.tables.parse()?;
        let inventory = Inventory::read_on(env, &self.db, self.how.files.wal_dir.as_deref()).ok();
        if let Some(i) = inventory.as_ref().filter(|_| !may_create) {
            known_family(i, &self.cf)?;
        }
        Ok(Known {
            dir: &self.db,
            inventory,
            comparators,
            merges,
            places,
        })
    }

    /// A value as the program gave it.
    pub fn value<'v>(&self, stored: &'v [u8]) -> &'v [u8] {
        if self.how.ttl {
            without_time(stored)
        } else {
            stored
        }
    }

    /// A value as it is stored.
    pub fn stored(&self, mut value: Vec<u8>) -> Vec<u8> {
        if self.how.ttl {
            append_time(&mut value, Env::system().clock.now_seconds());
        }
        value
    }

    fn family(&self, db: &Db) -> anyhow::Result<Cf> {
        db.cf(&self.cf).ok_or_else(|| {
            Failure::new(
                format!("Invalid argument: Column family not found: {}", self.cf),
                "leave --cf out for the default family",
            )
            .into()
        })
    }

    /// The directory of the logs as an option; empty for that of the database.
    fn wal_dir(&self, known: &Known<'_>) -> anyhow::Result<String> {
        if let Some(dir) = &self.how.files.wal_dir {
            return Ok(dir.display().to_string());
        }
        let Some(i) = &known.inventory else {
            return Ok(String::new());
        };
        if let Some(missing) = &i.missing_wal_dir {
            return Err(Failure::new(
                format!(
                    "{}: the logs are not there, nor in {}",
                    missing.display(),
                    known.dir.display()
                ),
                "--wal-dir DIR names the directory of the logs",
            )
            .into());
        }
        if i.wal_dir == known.dir {
            return Ok(String::new());
        }
        Ok(i.wal_dir.display().to_string())
    }

    /// Attaches comparator and merge operator.
    fn components(
        &self,
        mut family: FamilyOptions,
        known: &Known<'_>,
        purpose: Purpose,
    ) -> anyhow::Result<FamilyOptions> {
        let name = family.name().to_string();
        let asked_for = name == self.cf;
        let recorded = known.comparator(&name);
        let flag = known.comparators.iter().rev().find(|f| match &f.recorded {
            // A family that is made now is recorded as the flag says.
            Some(r) => r == recorded || (recorded.is_empty() && asked_for),
            None => asked_for,
        });
        let comparator = match flag {
            Some(flag) => {
                let order = flag.comparator();
                if purpose == Purpose::Write
                    && let Some(i) = &known.inventory
                    && let Some(table) = out_of_order(i, &name, &order)
                {
                    let text = format!(
                        "Invalid argument: family {name}: {table} is not in the order that \
                         --comparator gives"
                    );
                    let hint = format!(
                        "{recorded} orders otherwise: the program that defines it can write"
                    );
                    return Err(Failure::new(text, hint).into());
                }
                order
            }
            None if recorded.is_empty() => Comparator::Bytewise,
            None => match Comparator::from_name(recorded) {
                Some(c) => c,
                None if purpose == Purpose::Aside => {
                    super::verify::comparator_or_stand_in(recorded)
                }
                None => {
                    return Err(Failure::new(
                        format!("Invalid argument: family {name}: unknown comparator {recorded}"),
                        format!(
                            "--comparator {recorded}=bytewise (or =reverse) if it orders like \
                             that; else only the program that defines it can open the family"
                        ),
                    )
                    .into());
                }
            },
        };
        family = family.comparator(comparator);
        if let Some(paths) = known.places.of(&name) {
            family = family.paths(paths.clone());
        }
        Ok(match self.merge_operator(&name, known, purpose)? {
            Some(m) => family.merge_operator(m),
            None => family,
        })
    }

    /// The merge operator to open a family with. Who only reads may say what an operator of another name does; what
    /// is written is merged by the recorded operator or not at all.
    fn merge_operator(
        &self,
        family: &str,
        known: &Known<'_>,
        purpose: Purpose,
    ) -> anyhow::Result<Option<Arc<dyn MergeOperator>>> {
        let text = known.merge_operator(family);
        let user = user_text(&text);
        let name = |text| objects::id(text).unwrap_or("");
        let flag = known.merges.iter().rev().find(|f| match &f.recorded {
            Some(r) => r == name(&text) || r == name(&user),
            None => family == self.cf,
        });
        let recorded = Recorded::of(&text);
        let is_recorded = !matches!(recorded, Recorded::None);
        let timed = |o: Arc<dyn MergeOperator>| -> Arc<dyn MergeOperator> {
            let has_times = self.how.ttl || name(&text) == TimedMerge::NAME;
            match has_times && o.name() != TimedMerge::NAME {
                true => Arc::new(TimedMerge::new(o, Env::system().clock)),
                false => o,
            }
        };
        if let Some(flag) = flag {
            let operator = flag.operator();
            if purpose == Purpose::Write && is_recorded {
                let given = operator
                    .as_ref()
                    .map(|o| (o.name().to_string(), o.options_text()));
                let is_it = given
                    .as_ref()
                    .is_some_and(|(given, in_full)| match &recorded {
                        // The flag says what is not recorded.
                        Recorded::Guessed(_) => given == name(&user),
                        _ => objects::same(in_full, &user),
                    });
                if !is_it {
                    return Err(another_operator(family, &user, given.map(|g| g.1)));
                }
            }
            return Ok(operator.map(timed));
        }
        Ok(match (recorded, purpose) {
            (Recorded::None, _) => None,
            (Recorded::Known(o), _) => Some(timed(o)),
            (Recorded::Guessed(_) | Recorded::Unknown, Purpose::Write) => {
                Some(Arc::new(Unfolded::new(&text)))
            }
            (Recorded::Guessed(o), _) => Some(timed(o)),
            (Recorded::Unknown, Purpose::Read) => None,
            (Recorded::Unknown, _) => Some(Arc::new(spanlith::Put)),
        })
    }
}

/// Refuses to write with an operator that is not the recorded one.
fn another_operator(family: &str, recorded: &str, given: Option<String>) -> anyhow::Error {
    let given = given.unwrap_or_else(|| "none".to_string());
    Failure::new(
        format!(
            "Invalid argument: family {family}: its merge operator is recorded as {recorded}, and {given} \
             is not it: another one is for reading only"
        ),
        "leave --merge-operator out: what is written keeps all operands as they are, for the program that has \
         the operator",
    )
    .into()
}

/// Refuses filter policies that there are not. RocksDB takes every text, and goes on with the policy that was there.
fn known_filters(changes: &[(&str, &str)]) -> Result<(), Usage> {
    for (name, value) in changes {
        let (table, field) = name.split_once('.').unwrap_or((name, ""));
        let policy = match table.ends_with("table_factory") {
            true if field == "filter_policy" => Some(value.to_string()),
            true if field.is_empty() => objects::property(value, "filter_policy"),
            _ => None,
        };
        if let Some(policy) = policy.filter(|p| FilterPolicyChoice::parse(p).is_none()) {
            let nearest = match policy.contains('r') && !policy.starts_with('b') {
                true => "ribbonfilter:10",
                false => "bloomfilter:10",
            };
            return Err(Usage::new(
                format!("{name}: there is no filter policy '{policy}'"),
                format!(
                    "the nearest is {nearest}; known: bloomfilter:BITS, ribbonfilter:BITS, nullptr"
                ),
            ));
        }
    }
    Ok(())
}

/// A table whose recorded bounds contradict an order, or that overlaps one it must not overlap.
fn out_of_order(i: &Inventory, family: &str, order: &Comparator) -> Option<String> {
    let family = i.family(family)?;
    let mut tables: Vec<_> = family.files.values().collect();
    tables.sort_by(|a, b| order.compare(tables::user(&a.smallest), tables::user(&b.smallest)));
    let mut ends: std::collections::BTreeMap<u32, &[u8]> = Default::default();
    for f in tables {
        let (first, last) = (tables::user(&f.smallest), tables::user(&f.largest));
        let mut wrong = order.compare(first, last).is_gt();
        if f.level > 0 {
            let end = ends.insert(f.level, last);
            wrong |= end.is_some_and(|end| order.compare(end, first).is_gt());
        }
        if wrong {
            return Some(filenames::table_file_name(f.number));
        }
    }
    None
}

/// The options that RocksDB does not have, if the directory says some that can be read.
fn own_options(dir: &Path) -> Option<Sidecar> {
    Sidecar::load(&Env::system(), dir).ok()?
}

fn parse_all<T: FromStr<Err = Usage>>(texts: &[String]) -> Result<Vec<T>, Usage> {
    texts.iter().map(|text| text.parse()).collect()
}

/// Refuses a family that is not there, and names those that are.
pub fn known_family(inventory: &Inventory, name: &str) -> anyhow::Result<()> {
    if inventory.family(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = inventory
        .families
        .values()
        .map(|f| f.name.as_str())
        .collect();
    Err(Failure::new(
        format!("Invalid argument: Column family not found: {name}"),
        format!("families of this database: {}", names.join(", ")),
    )
    .into())
}
