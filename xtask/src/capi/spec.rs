//! The specification: a table with one row for each handle, callback, constant and function.

use super::ctype::{self, Declaration};

/// All rows, in their order.
pub struct Spec {
    pub handles: Vec<String>,
    pub callbacks: Vec<Row>,
    pub constants: Vec<Constant>,
    pub functions: Vec<Row>,
}

/// A callback or a function.
pub struct Row {
    /// The part of the interface that it belongs to.
    pub area: String,
    /// The declaration in C.
    pub c: String,
    pub parsed: Declaration,
}

/// One value of an enumeration.
pub struct Constant {
    /// The enumeration.
    pub group: String,
    pub name: String,
    pub value: i64,
}

impl Spec {
    /// Reads the table. Kinds are `type`, `callback`, `constant`, `newer-constant`, and for functions `function`
    /// (RocksDB 11.8.1), `older` (only in an earlier release), `newer` (only in a later one) and
    /// `own` (Spanlith's).
    pub fn parse(text: &str) -> Result<Spec, String> {
        let mut spec = Spec {
            handles: Vec::new(),
            callbacks: Vec::new(),
            constants: Vec::new(),
            functions: Vec::new(),
        };
        for (number, line) in text.lines().enumerate().skip(1) {
            let at = |what: &str| format!("{}:{}: {what}", super::SPEC, number + 1);
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, area, name, declaration] = fields[..] else {
                return Err(at("a row has four fields"));
            };
            match kind {
                "type" => spec.handles.push(name.to_string()),
                "constant" | "newer-constant" => spec.constants.push(Constant {
                    group: area.to_string(),
                    name: name.to_string(),
                    value: declaration.parse().map_err(|_| at("not a number"))?,
                }),
                "callback" | "function" | "older" | "newer" | "own" => {
                    let parsed = ctype::parse(declaration).map_err(|what| at(&what))?;
                    if parsed.name != name {
                        return Err(at("the declaration declares another name"));
                    }
                    let row = Row {
                        area: area.to_string(),
                        c: declaration.to_string(),
                        parsed,
                    };
                    if kind == "callback" {
                        spec.callbacks.push(row);
                    } else {
                        spec.functions.push(row);
                    }
                }
                _ => return Err(at("unknown kind")),
            }
        }
        Ok(spec)
    }

    /// Returns whether there is a function of that name.
    pub fn knows(&self, name: &str) -> bool {
        self.functions.iter().any(|row| row.parsed.name == name)
    }

    /// The enumerations in their order.
    pub fn groups(&self) -> Vec<&[Constant]> {
        self.constants
            .chunk_by(|left, right| left.group == right.group)
            .collect()
    }
}
