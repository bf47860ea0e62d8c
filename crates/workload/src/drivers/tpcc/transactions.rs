//! TPC-C's five transactions (clause 2 of the standard).

use super::rows::{Customer, District, Order, OrderLine, Row, Stock, Warehouse, number, table};
use super::{Client, DISTRICTS};
use crate::store::{Direction, Error, Result, Store, Transaction};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

type Txn<'a> = Box<dyn Transaction + 'a>;

/// A row that must be there.
fn row<R: Row>(txn: &mut Txn<'_>, key: &[u8], value: &mut Vec<u8>) -> Result<R> {
    match txn.get(0, key, value)? {
        true => R::decode(value),
        false => Err(missing(key)),
    }
}

/// The same, kept from others.
fn own<R: Row>(txn: &mut Txn<'_>, key: &[u8], value: &mut Vec<u8>) -> Result<R> {
    match txn.get_for_update(0, key, value)? {
        true => R::decode(value),
        false => Err(missing(key)),
    }
}

fn missing(key: &[u8]) -> Error {
    Error::new("tpcc", format!("row {key:02x?} is missing"))
}

/// Puts a changed row; how many bytes.
fn set<R: Row>(txn: &mut Txn<'_>, key: &[u8], row: &R, value: &mut [u8]) -> Result<usize> {
    row.patch(value);
    txn.put(0, key, value)?;
    Ok(key.len() + value.len())
}

/// Keys after a prefix, at most `limit`.
fn keys(txn: &mut Txn<'_>, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    txn.scan(0, prefix, Direction::Forward, limit, &mut |key, _| {
        let inside = key.starts_with(prefix);
        if inside {
            out.push(key.to_vec());
        }
        inside
    })?;
    Ok(out)
}

/// The last number of a key.
fn last_number(key: &[u8]) -> u32 {
    let end = key.last_chunk::<4>().copied().unwrap_or_default();
    u32::from_be_bytes(end)
}

impl Client {
    /// A customer by last name in six of ten cases, the middle one of those with the name, else by number.
    fn choose(&mut self, txn: &mut Txn<'_>, w: u32, d: u32) -> Result<u32> {
        if self.rng.below(100) >= 60 {
            return Ok(self.customer());
        }
        let name = self.name();
        let found = keys(txn, &table::names(w, d, &name), 1000)?;
        match found.get(found.len() / 2) {
            Some(key) => Ok(last_number(key)),
            // A scaled set of customers may lack a name.
            None => Ok(self.customer()),
        }
    }

    pub(super) fn new_order(&mut self, store: &dyn Store) -> Result<usize> {
        let (w, d, c) = (self.home, self.district(), self.customer());
        let count = 5 + self.rng.below(11) as u32;
        let is_wrong = self.rng.below(100) == 0;
        let mut txn = store.begin(self.shared.isolation)?;
        let mut value = std::mem::take(&mut self.value);
        let warehouse: Warehouse = row(&mut txn, &table::warehouse(w), &mut value)?;
        row::<Customer>(&mut txn, &table::customer(w, d, c), &mut value)?;
        let key = table::district(w, d);
        let mut district: District = own(&mut txn, &key, &mut value)?;
        let o = district.next_order;
        district.next_order += 1;
        let mut bytes = set(&mut txn, &key, &district, &mut value)?;
        // Stocks are taken in order, so that two transactions wait for each other less often.
        let items: BTreeSet<u32> = (0..count).map(|_| self.item()).collect();
        let order = Order {
            customer: c,
            carrier: 0,
            lines: items.len() as u32,
        };
        for (key, value) in [
            (table::order(w, d, o), order.encode(&[])),
            (table::order_customer(w, d, c, o), Vec::new()),
            (table::new_order(w, d, o), Vec::new()),
        ] {
            txn.put(0, &key, &value)?;
            bytes += key.len() + value.len();
        }
        for (n, item) in (1..).zip(&items) {
            if !txn.get(0, &table::item(*item), &mut value)? {
                return Err(missing(&table::item(*item)));
            }
            let price = number(&value, 0)?;
            let remote = self.shared.warehouses > 1 && self.rng.below(100) == 0;
            let supplier = match remote {
                true => w % self.shared.warehouses + 1,
                false => w,
            };
            let quantity = 1 + self.rng.below(10) as u32;
            let key = table::stock(supplier, *item);
            let mut stock: Stock = own(&mut txn, &key, &mut value)?;
            let enough = stock.quantity >= quantity + 10;
            stock.quantity = if enough {
                stock.quantity
            } else {
                stock.quantity + 91
            } - quantity;
            stock.ytd += quantity;
            stock.orders += 1;
            stock.remote += u32::from(remote);
            bytes += set(&mut txn, &key, &stock, &mut value)?;
            let amount = u64::from(quantity * price) * u64::from(10_000 + warehouse.tax) / 10_000;
            let line = OrderLine {
                item: *item,
                supplier,
                quantity,
                amount: amount as u32,
                delivered: 0,
            };
            let key = table::order_line(w, d, o, n);
            let row = line.encode(self.filler.sized(24));
            txn.put(0, &key, &row)?;
            bytes += key.len() + row.len();
        }
        self.value = value;
        if is_wrong {
            // The last item does not exist: everything is taken back, as the standard wants of one in a hundred.
            drop(txn);
            return Ok(0);
        }
        txn.commit()?;
        Ok(bytes)
    }

    pub(super) fn payment(&mut self, store: &dyn Store) -> Result<usize> {
        let (w, d) = (self.home, self.district());
        let amount = 100 + self.rng.below(499_901) as u32;
        let remote = self.shared.warehouses > 1 && self.rng.below(100) < 15;
        let at = if remote {
            w % self.shared.warehouses + 1
        } else {
            w
        };
        let mut txn = store.begin(self.shared.isolation)?;
        let mut value = std::mem::take(&mut self.value);
        let key = table::warehouse(w);
        let mut warehouse: Warehouse = own(&mut txn, &key, &mut value)?;
        warehouse.ytd = warehouse.ytd.wrapping_add(amount);
        let mut bytes = set(&mut txn, &key, &warehouse, &mut value)?;
        let key = table::district(w, d);
        let mut district: District = own(&mut txn, &key, &mut value)?;
        district.ytd = district.ytd.wrapping_add(amount);
        bytes += set(&mut txn, &key, &district, &mut value)?;
        let c = self.choose(&mut txn, at, d)?;
        let key = table::customer(at, d, c);
        let mut customer: Customer = own(&mut txn, &key, &mut value)?;
        customer.balance = customer.balance.wrapping_sub_unsigned(amount);
        customer.ytd_payment = customer.ytd_payment.wrapping_add(amount);
        customer.payments += 1;
        bytes += set(&mut txn, &key, &customer, &mut value)?;
        let entry = self.shared.history.fetch_add(1, Ordering::Relaxed);
        let (key, row) = (table::history(w, d, entry), self.filler.sized(40));
        txn.put(0, &key, row)?;
        bytes += key.len() + row.len();
        self.value = value;
        txn.commit()?;
        Ok(bytes)
    }

    pub(super) fn order_status(&mut self, store: &dyn Store) -> Result<usize> {
        let (w, d) = (self.home, self.district());
        let mut txn = store.begin(self.shared.isolation)?;
        let mut value = std::mem::take(&mut self.value);
        let c = self.choose(&mut txn, w, d)?;
        row::<Customer>(&mut txn, &table::customer(w, d, c), &mut value)?;
        let all = table::order_customer(w, d, c, 0);
        let newest = keys(&mut txn, &all[..13], 1)?;
        if let Some(key) = newest.first() {
            let o = !last_number(key);
            row::<Order>(&mut txn, &table::order(w, d, o), &mut value)?;
            keys(&mut txn, &table::order_line(w, d, o, 0)[..13], 15)?;
        }
        self.value = value;
        txn.commit()?;
        Ok(0)
    }

    pub(super) fn delivery(&mut self, store: &dyn Store) -> Result<usize> {
        let (w, carrier) = (self.home, 1 + self.rng.below(10) as u32);
        let mut txn = store.begin(self.shared.isolation)?;
        let mut value = std::mem::take(&mut self.value);
        let mut bytes = 0;
        for d in 1..=DISTRICTS {
            // A delivery has its district for itself, so that an order is delivered once.
            own::<District>(&mut txn, &table::district(w, d), &mut value)?;
            let oldest = keys(&mut txn, &table::new_order(w, d, 0)[..9], 1)?;
            let Some(key) = oldest.first() else {
                continue;
            };
            let o = last_number(key);
            txn.delete(0, key)?;
            let key = table::order(w, d, o);
            let mut order: Order = own(&mut txn, &key, &mut value)?;
            order.carrier = carrier;
            bytes += set(&mut txn, &key, &order, &mut value)?;
            let mut sum = 0_u32;
            for n in 1..=order.lines {
                let key = table::order_line(w, d, o, n);
                let mut line: OrderLine = own(&mut txn, &key, &mut value)?;
                line.delivered = 1;
                sum = sum.wrapping_add(line.amount);
                bytes += set(&mut txn, &key, &line, &mut value)?;
            }
            let key = table::customer(w, d, order.customer);
            let mut customer: Customer = own(&mut txn, &key, &mut value)?;
            customer.balance = customer.balance.wrapping_add_unsigned(sum);
            customer.deliveries += 1;
            bytes += set(&mut txn, &key, &customer, &mut value)?;
        }
        self.value = value;
        txn.commit()?;
        Ok(bytes)
    }

    pub(super) fn stock_level(&mut self, store: &dyn Store) -> Result<usize> {
        let (w, d) = (self.home, self.district());
        let threshold = 10 + self.rng.below(11) as u32;
        let mut txn = store.begin(self.shared.isolation)?;
        let mut value = std::mem::take(&mut self.value);
        let district: District = row(&mut txn, &table::district(w, d), &mut value)?;
        let first = district.next_order.saturating_sub(20);
        let start = table::order_line(w, d, first, 0);
        let prefix = start[..9].to_vec();
        let mut items = BTreeSet::new();
        txn.scan(0, &start, Direction::Forward, 400, &mut |key, value| {
            let inside = key.starts_with(&prefix);
            if let (true, Ok(item)) = (inside, number(value, 0)) {
                items.insert(item);
            }
            inside
        })?;
        let mut low = 0;
        for item in items {
            let stock: Stock = row(&mut txn, &table::stock(w, item), &mut value)?;
            low += usize::from(stock.quantity < threshold);
        }
        self.value = value;
        txn.commit()?;
        // The answer of a terminal; nothing is written.
        std::hint::black_box(low);
        Ok(0)
    }
}
