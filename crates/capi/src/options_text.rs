//! Options from text: `rocksdb_get_options_from_string`.

use crate::ffi::{report, text};
use crate::options::rocksdb_options_t;
use libc::c_char;
use spanlith::options::text::nested_pairs;
use spanlith::options::values::OptionValue;
use spanlith::options::{
    BlockBasedTableOptions, CfOptions, DbOptions, MergeOperatorChoice, apply_options_string,
    keep_known_objects, objects,
};
use spanlith_base::{Comparator, Error, Result};
use spanlith_cache::Policy;
use spanlith_table::BlockCache;

c_api! {
    /// `base_options`, changed by `opts_str`, into `new_options`.
    fn rocksdb_get_options_from_string(
        base_options: *const rocksdb_options_t,
        opts_str: *const c_char,
        new_options: *mut rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, (), || {
            let changed = (*base_options).changed_by(&text(opts_str))?;
            let to = &mut *new_options;
            // Strings that the target lent stay valid.
            let texts = std::mem::take(&mut to.texts);
            *to = changed;
            to.texts = texts;
            Ok(())
        });
    }
}

impl rocksdb_options_t {
    /// A copy changed by `text`; objects named in it are made.
    fn changed_by(&self, text: &str) -> Result<Self> {
        let (mut db, mut cf, mut table) = (self.db.clone(), self.cf.clone(), self.table.clone());
        apply_options_string(text, &mut db, &mut cf, &mut table)?;
        self.named(db, cf, table)
    }

    /// A copy with other options; objects that they name, and that were not named before, are made.
    pub(crate) fn named(
        &self,
        db: DbOptions,
        cf: CfOptions,
        table: BlockBasedTableOptions,
    ) -> Result<Self> {
        let mut new = self.copy();
        (new.db, new.cf, new.table) = (db, cf, table);
        // As RocksDB does: what nobody knows, an object of a program, stays what it was.
        keep_known_objects((&mut new.cf, &mut new.table), (&self.cf, &self.table));
        if new.cf.comparator != self.cf.comparator
            && let Some(c) = objects::id(&new.cf.comparator).and_then(Comparator::from_name)
        {
            new.comparator = c;
        }
        if new.cf.merge_operator != self.cf.merge_operator
            && let Some(choice) = MergeOperatorChoice::parse(&new.cf.merge_operator)
        {
            new.merge_operator = spanlith::operator_of(&choice);
        }
        if new.cf.prefix_extractor != self.cf.prefix_extractor {
            // The engine understands the text, or says so.
            new.prefix_extractor = None;
        }
        if new.table.block_cache != self.table.block_cache {
            new.block_cache = Some(block_cache(&new.table.block_cache)?);
        }
        Ok(new)
    }
}

/// A cache by size (`64M`) or by properties (`{capacity=64M;num_shard_bits=4;}`).
fn block_cache(text: &str) -> Result<BlockCache> {
    let size = |name: &str, text: &str| {
        let mut n = 0u64;
        n.parse_into(text).map_err(|e| e.into_error(name, text))?;
        usize::try_from(n).map_err(|_| Error::invalid_argument(format!("{name} is too large")))
    };
    if !text.trim_start().starts_with('{') {
        return Ok(BlockCache::new(size("block_cache", text)?, Policy::Lru));
    }
    let (mut capacity, mut shard_bits, mut strict) = (None, None, false);
    for (name, value) in nested_pairs(text)? {
        match name.as_str() {
            "capacity" => capacity = Some(size("capacity", &value)?),
            "num_shard_bits" => {
                let mut bits = 0i32;
                bits.parse_into(&value)
                    .map_err(|e| e.into_error("num_shard_bits", &value))?;
                shard_bits = u32::try_from(bits).ok();
            }
            "strict_capacity_limit" => {
                strict
                    .parse_into(&value)
                    .map_err(|e| e.into_error("strict_capacity_limit", &value))?;
            }
            _ => return Err(Error::not_supported(format!("block_cache {name}"))),
        }
    }
    let capacity = capacity.unwrap_or(8 << 20);
    Ok(crate::cache::new_cache(
        capacity,
        Policy::Lru,
        shard_bits,
        strict,
    ))
}
