from fairlead import App

app = App("desk", description="Lend books.")

loans: dict[str, int] = {}


@app.action
def lend_book(title: str, days: int = 14) -> str:
    """Lend a book for some days."""
    loans[title] = days
    return f"{title} is lent for {days} days."


if __name__ == "__main__":
    app.cli()
