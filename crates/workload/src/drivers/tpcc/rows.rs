//! TPC-C's rows as keys and values. Amounts are in hundredths, rates in ten thousandths; numbers are big-endian.

use crate::store::{Error, Result};

/// Keys of tables and indexes, each behind a byte of its own.
pub mod table {
    fn key(id: u8, parts: &[u32]) -> Vec<u8> {
        let mut out = vec![id];
        for part in parts {
            out.extend_from_slice(&part.to_be_bytes());
        }
        out
    }

    macro_rules! keys {
        ($($name:ident $id:literal ($($part:ident),*) $doc:literal)*) => {
            $(#[doc = $doc]
            pub fn $name($($part: u32),*) -> Vec<u8> {
                key($id, &[$($part),*])
            })*
        };
    }

    keys! {
        warehouse 1 (w) "A warehouse."
        district 2 (w, d) "A district."
        customer 3 (w, d, c) "A customer."
        order 5 (w, d, o) "An order."
        new_order 7 (w, d, o) "An order that is not delivered."
        order_line 8 (w, d, o, n) "A line of an order."
        stock 9 (w, i) "The stock of an item."
        item 10 (i) "An item."
    }

    /// Index of customers by last name.
    pub fn customer_name(w: u32, d: u32, last: &str, c: u32) -> Vec<u8> {
        let mut out = names(w, d, last);
        out.extend_from_slice(&c.to_be_bytes());
        out
    }

    /// Returns what the keys of customers with a last name begin with.
    pub fn names(w: u32, d: u32, last: &str) -> Vec<u8> {
        let mut out = key(4, &[w, d]);
        out.extend_from_slice(format!("{last:<16}").as_bytes());
        out
    }

    /// Index of orders by customer, newest first.
    pub fn order_customer(w: u32, d: u32, c: u32, o: u32) -> Vec<u8> {
        key(6, &[w, d, c, !o])
    }

    /// A payment.
    pub fn history(w: u32, d: u32, number: u64) -> Vec<u8> {
        let mut out = key(11, &[w, d]);
        out.extend_from_slice(&number.to_be_bytes());
        out
    }
}

/// A number of a row, at its place.
///
/// # Errors
/// If the row is too short.
pub fn number(bytes: &[u8], at: usize) -> Result<u32> {
    let part = bytes
        .get(4 * at..4 * at + 4)
        .and_then(|b| b.try_into().ok());
    let part = part.ok_or_else(|| Error::new("tpcc", "a row is too short"))?;
    Ok(u32::from_be_bytes(part))
}

/// A row whose numbers stand before bytes that only take room.
pub trait Row: Sized {
    /// How many numbers it has.
    const NUMBERS: usize;

    /// Its numbers.
    fn numbers(&self) -> Vec<u32>;

    /// Of its numbers.
    fn of(numbers: &[u32]) -> Self;

    /// Its bytes.
    fn encode(&self, filler: &[u8]) -> Vec<u8> {
        let numbers = self.numbers().into_iter();
        let mut out: Vec<u8> = numbers.flat_map(u32::to_be_bytes).collect();
        out.extend_from_slice(filler);
        out
    }

    /// Of its bytes.
    ///
    /// # Errors
    /// If they are too few.
    fn decode(bytes: &[u8]) -> Result<Self> {
        let numbers = (0..Self::NUMBERS).map(|n| number(bytes, n));
        Ok(Self::of(&numbers.collect::<Result<Vec<_>>>()?))
    }

    /// Puts its numbers in the place of those of a value, and keeps the rest.
    fn patch(&self, value: &mut [u8]) {
        for (part, number) in value.chunks_exact_mut(4).zip(self.numbers()) {
            part.copy_from_slice(&number.to_be_bytes());
        }
    }
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident),* } $count:literal)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: u32),* }

        impl Row for $name {
            const NUMBERS: usize = $count;

            fn numbers(&self) -> Vec<u32> {
                vec![$(self.$field),*]
            }

            fn of(numbers: &[u32]) -> Self {
                let mut numbers = numbers.iter().copied();
                Self { $($field: numbers.next().unwrap_or(0)),* }
            }
        })*
    };
}

rows! {
    /// A warehouse.
    Warehouse {
        /// Payments so far.
        ytd,
        /// Its tax.
        tax
    } 2
    /// A district.
    District {
        /// Payments so far.
        ytd,
        /// Number of the next order.
        next_order,
        /// Its tax.
        tax
    } 3
    /// An order.
    Order {
        /// Says who ordered.
        customer,
        /// Says who delivers; 0: nobody yet.
        carrier,
        /// Number of its lines.
        lines
    } 3
    /// A line of an order.
    OrderLine {
        /// The item.
        item,
        /// The warehouse that has it.
        supplier,
        /// How many.
        quantity,
        /// Price of all.
        amount,
        /// 1 once it was delivered.
        delivered
    } 5
    /// A stock of an item.
    Stock {
        /// How many there are.
        quantity,
        /// How many were sold.
        ytd,
        /// In how many orders.
        orders,
        /// In how many of other warehouses.
        remote
    } 4
}

/// A customer. The balance may be below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Customer {
    /// Says what the customer owes.
    pub balance: i32,
    /// Payments so far.
    pub ytd_payment: u32,
    /// How many.
    pub payments: u32,
    /// Deliveries so far.
    pub deliveries: u32,
}

impl Row for Customer {
    const NUMBERS: usize = 4;

    fn numbers(&self) -> Vec<u32> {
        vec![
            self.balance.cast_unsigned(),
            self.ytd_payment,
            self.payments,
            self.deliveries,
        ]
    }

    fn of(n: &[u32]) -> Self {
        Self {
            balance: n[0].cast_signed(),
            ytd_payment: n[1],
            payments: n[2],
            deliveries: n[3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_and_patched_in_place() {
        let customer = Customer {
            balance: -5,
            ytd_payment: 1,
            payments: 2,
            deliveries: 3,
        };
        let mut value = customer.encode(b"filler");
        assert_eq!(Customer::decode(&value), Ok(customer));
        let later = Customer {
            balance: 7,
            ..customer
        };
        later.patch(&mut value);
        assert_eq!(Customer::decode(&value), Ok(later));
        assert!(value.ends_with(b"filler"));
        assert!(Stock::decode(&value[..15]).is_err());
    }

    #[test]
    fn newer_orders_of_a_customer_come_first_and_tables_do_not_mix() {
        assert!(table::order_customer(1, 1, 1, 9) < table::order_customer(1, 1, 1, 8));
        assert!(table::names(1, 1, "BAR") < table::customer_name(1, 1, "BAR", 1));
        assert!(table::customer(9, 9, 9) < table::names(1, 1, ""));
    }
}
