from desk2 import app

result = app.invoke_sync("lend_book", {"title": "Moby-Dick", "days": 7})
print(result.ok, result.data["title"])

again = app.invoke_sync("lend_book", {"title": "Moby-Dick"})
print(again.ok, again.failure.code, "-", again.failure.message)
