//! The INSERT statements of a dump that mysqldump wrote. Pure.
//!
//! Only `CREATE TABLE` and `INSERT INTO ... VALUES` are read, all other statements are skipped.
//! Values are strings, numbers and NULL.

use std::collections::HashMap;

use super::sql_tokens::{Token, Tokens};
use super::table::{Cell, Refusal, Row, Schema, Table, push};

/// Reads the rows of all INSERT statements into the table of the schema.
pub(super) fn read(text: &str, schema: &Schema) -> Result<Vec<Table>, Refusal> {
    let mut tokens = Tokens::new(text);
    let (mut created, mut tables) = (HashMap::new(), Vec::new());
    let mut count = 0;
    while let Some(token) = tokens.next()? {
        let is = |word| token.is_word(word);
        if is("CREATE") {
            create(&mut tokens, &mut created)?;
        } else if is("INSERT") || is("REPLACE") {
            let name = target(&mut tokens)?;
            if schema.table.is_some_and(|table| name != table) {
                skip(&mut tokens)?;
                continue;
            }
            let table = insert(&mut tokens, created.get(&name), schema, count)?;
            count += table.rows.len();
            tables.push(table);
        } else if token != Token::Mark(';') {
            skip(&mut tokens)?;
        }
    }
    Ok(tables)
}

/// Skips the rest of a statement.
fn skip(tokens: &mut Tokens<'_>) -> Result<(), Refusal> {
    while let Some(token) = tokens.next()? {
        if token == Token::Mark(';') {
            break;
        }
    }
    Ok(())
}

/// The table name of an INSERT, without its database.
fn target(tokens: &mut Tokens<'_>) -> Result<String, Refusal> {
    loop {
        match tokens.next()? {
            Some(token) if token.is_word("INTO") || token.is_word("IGNORE") => {}
            Some(Token::Word(name) | Token::Quoted(name)) => return after_dots(tokens, name),
            _ => return Err(tokens.refusal("expected INSERT INTO and a table name")),
        }
    }
}

fn after_dots(tokens: &mut Tokens<'_>, mut name: String) -> Result<String, Refusal> {
    while tokens.take('.')? {
        match tokens.next()? {
            Some(Token::Word(next) | Token::Quoted(next)) => name = next,
            _ => return Err(tokens.refusal("expected a table name after the dot")),
        }
    }
    Ok(name)
}

/// Reads the column names of a CREATE TABLE statement.
fn create(
    tokens: &mut Tokens<'_>,
    created: &mut HashMap<String, Vec<String>>,
) -> Result<(), Refusal> {
    if !tokens.next()?.is_some_and(|token| token.is_word("TABLE")) {
        return skip(tokens);
    }
    let mut name = String::new();
    loop {
        match tokens.next()? {
            Some(Token::Word(word) | Token::Quoted(word)) => name = after_dots(tokens, word)?,
            Some(Token::Mark('(')) => break,
            _ => return Err(tokens.refusal("expected CREATE TABLE name (columns)")),
        }
    }
    let (mut columns, mut depth, mut at_start) = (Vec::new(), 1, true);
    while depth > 0 {
        match tokens.next()? {
            Some(Token::Mark('(')) => depth += 1,
            Some(Token::Mark(')')) => depth -= 1,
            Some(Token::Mark(',')) if depth == 1 => {
                at_start = true;
                continue;
            }
            Some(Token::Quoted(column)) if at_start => columns.push(column.to_ascii_lowercase()),
            Some(Token::Word(column)) if at_start && !is_key(&column) => {
                columns.push(column.to_ascii_lowercase());
            }
            None => return Err(tokens.refusal("the closing bracket of CREATE TABLE is missing")),
            _ => {}
        }
        at_start = false;
    }
    created.insert(name, columns);
    skip(tokens)
}

fn insert(
    tokens: &mut Tokens<'_>,
    created: Option<&Vec<String>>,
    schema: &Schema,
    before: usize,
) -> Result<Table, Refusal> {
    let columns = match created {
        Some(columns) => columns.clone(),
        None => schema.columns.iter().map(ToString::to_string).collect(),
    };
    let mut table = Table {
        line: tokens.line(),
        columns,
        rows: Vec::new(),
    };
    if tokens.take('(')? {
        table.columns = names(tokens)?;
    }
    let word = tokens.next()?;
    if !word.is_some_and(|token| token.is_word("VALUES") || token.is_word("VALUE")) {
        return Err(tokens.refusal("expected VALUES"));
    }
    loop {
        if !tokens.take('(')? {
            return Err(tokens.refusal("expected ( before the values of a row"));
        }
        let line = tokens.line();
        let cells = cells(tokens)?;
        push(&mut table, Row { line, cells }, before)?;
        match tokens.next()? {
            Some(Token::Mark(',')) => {}
            Some(Token::Mark(';')) | None => return Ok(table),
            _ => return Err(tokens.refusal("expected , or ; after the values of a row")),
        }
    }
}

fn names(tokens: &mut Tokens<'_>) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    loop {
        match tokens.next()? {
            Some(Token::Word(name) | Token::Quoted(name)) => names.push(name.to_ascii_lowercase()),
            _ => return Err(tokens.refusal("expected a column name")),
        }
        match tokens.next()? {
            Some(Token::Mark(',')) => {}
            Some(Token::Mark(')')) => return Ok(names),
            _ => return Err(tokens.refusal("expected , or ) after a column name")),
        }
    }
}

fn cells(tokens: &mut Tokens<'_>) -> Result<Vec<Cell>, Refusal> {
    let mut cells = Vec::new();
    loop {
        cells.push(match tokens.next()? {
            Some(Token::Text(text)) => Some(text),
            Some(token) if token.is_word("NULL") => None,
            Some(Token::Word(number)) if number.starts_with(['-', '+', '.']) => Some(number),
            Some(Token::Word(number)) if number.starts_with(|c: char| c.is_ascii_digit()) => {
                Some(number)
            }
            _ => return Err(tokens.refusal("expected a string, a number or NULL")),
        });
        match tokens.next()? {
            Some(Token::Mark(',')) => {}
            Some(Token::Mark(')')) => return Ok(cells),
            _ => return Err(tokens.refusal("expected , or ) after a value")),
        }
    }
}

/// Returns whether a word begins the definition of a key, and not of a column.
fn is_key(word: &str) -> bool {
    matches!(
        word.to_ascii_uppercase().as_str(),
        "PRIMARY" | "UNIQUE" | "KEY" | "INDEX" | "CONSTRAINT" | "FULLTEXT" | "FOREIGN" | "CHECK"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCHEMA: Schema = Schema {
        table: Some("leaf_alloc"),
        columns: &["biz_tag", "max_id", "step", "description", "update_time"],
        required: &["biz_tag", "max_id"],
    };

    #[test]
    fn a_dump_is_read_with_the_columns_of_its_table() {
        let dump = "-- MySQL dump\n/*!40101 SET NAMES utf8 */;\nDROP TABLE `leaf_alloc`;\n\
            CREATE TABLE `leaf_alloc` (\n  `max_id` bigint(20) NOT NULL DEFAULT '1',\n  \
            `biz_tag` varchar(128) NOT NULL COMMENT 'a;b',\n  PRIMARY KEY (`biz_tag`)\n) \
            ENGINE=InnoDB;\nINSERT INTO `other` VALUES (1,'x;');\n\
            INSERT INTO `db`.`leaf_alloc` VALUES (1001,'o''k\\'s'),\n(-5,NULL);\n";
        let tables = read(dump, &SCHEMA).unwrap();
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].columns, ["max_id", "biz_tag"]);
        assert_eq!(tables[0].rows[0].cells[1].as_deref(), Some("o'k's"));
        assert_eq!(tables[0].rows[1].cells, [Some("-5".to_owned()), None]);
        assert_eq!(tables[0].rows[1].line, 11);
    }

    #[test]
    fn columns_are_those_of_the_statement_or_the_original_ones() {
        let table = read(
            "INSERT INTO leaf_alloc (max_id, biz_tag) VALUES (1,'a')",
            &SCHEMA,
        );
        assert_eq!(table.unwrap()[0].columns, ["max_id", "biz_tag"]);
        let dump = "INSERT INTO leaf_alloc VALUES ('a',1,2,'d','2026-01-01 00:00:00');";
        assert_eq!(read(dump, &SCHEMA).unwrap()[0].columns, SCHEMA.columns);
    }

    #[test]
    fn a_broken_statement_is_refused_with_its_line() {
        for (text, line) in [
            ("INSERT INTO leaf_alloc VALUES\n('a", 2),
            ("INSERT INTO leaf_alloc VALUES\n('a',1,2,3,4\n", 3),
            ("INSERT INTO leaf_alloc VALUES ('a',1)", 1),
            ("INSERT INTO leaf_alloc SELECT 1", 1),
            ("INSERT INTO leaf_alloc VALUES (NOW())", 1),
            ("CREATE TABLE leaf_alloc (a int", 1),
            ("/* open", 1),
        ] {
            assert_eq!(read(text, &SCHEMA).unwrap_err().line, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn escaped_text_is_read_as_it_was_written(text in "[^\0]*") {
            let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
            let dump = format!("INSERT INTO leaf_alloc (biz_tag) VALUES ('{escaped}');");
            let tables = read(&dump, &SCHEMA).unwrap();
            prop_assert_eq!(tables[0].rows[0].cells[0].as_deref(), Some(text.as_str()));
        }

        #[test]
        fn no_text_panics(
            text in "(INSERT INTO |CREATE TABLE |leaf_alloc|VALUES|[(),;'`\\\\*/#\n-]|é){0,20}",
        ) {
            let _ = read(&text, &SCHEMA);
        }
    }
}
