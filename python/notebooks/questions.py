"""Three questions to an export, answered by DuckDB: a marimo notebook, which runs as a script, too.

    FFWD_EXPORT=/data/bitcoin marimo edit python/notebooks/questions.py
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def start():
    import os

    import altair as alt
    import duckdb
    import marimo as mo

    top = os.environ.get("FFWD_EXPORT", "export")

    def ask(query: str):
        """Rows of a query; @NAME stands for a table of the export."""
        for name in ("blocks", "transactions", "inputs", "outputs"):
            query = query.replace(f"@{name}", f"read_parquet('{top}/{name}/**/*.parquet', hive_partitioning = false)")
        return duckdb.sql(query).to_arrow_table()

    return alt, ask, mo


@app.cell
def fees(alt, ask, mo):
    fees_by_day = ask("""
        select date_trunc('day', block_timestamp)::timestamp as day, sum(fee)::bigint as fees,
               median(fee / virtual_size) as satoshi_per_vbyte
        from @transactions where not is_coinbase group by 1 order by 1
    """)
    mo.vstack([
        mo.md("## Fees by day, in satoshi"),
        alt.Chart(fees_by_day)
        .mark_line(point=True).encode(x="day:T", y="fees:Q"),
    ])
    return (fees_by_day,)


@app.cell
def types(alt, ask, mo):
    types_over_time = ask("""
        select o.block_number // 1000 * 1000 as from_height, o.type, count(*) as outputs, sum(o.value)::bigint as satoshi
        from @outputs o group by 1, 2 order by 1, 2
    """)
    mo.vstack([
        mo.md("## Types of scripts over time"),
        alt.Chart(types_over_time).mark_area().encode(
            x="from_height:Q", y=alt.Y("outputs:Q", stack="normalize"), color="type:N"),
    ])
    return (types_over_time,)


@app.cell
def ages(alt, ask, mo):
    ages_of_spent = ask("""
        select floor(log2(1 + block_number - spent_block_number))::int as power,
               min(block_number - spent_block_number) as youngest, count(*) as coins, sum(value)::bigint as satoshi
        from @inputs group by 1 order by 1
    """)
    mo.vstack([
        mo.md("## Age of coins when they are spent, in blocks (powers of two)"),
        alt.Chart(ages_of_spent).mark_bar().encode(x="power:O", y="coins:Q"),
    ])
    return (ages_of_spent,)


if __name__ == "__main__":
    app.run()
