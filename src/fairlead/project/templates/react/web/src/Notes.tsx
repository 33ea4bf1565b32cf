import { useState } from "react";

import { useAction, type MyAppClient } from "./client.ts";

/** Finds notes as one types a word and presses the button. */
export function Notes({ client }: { client: MyAppClient }) {
  const [word, setWord] = useState("");
  const notes = useAction(client, "find_notes");
  return (
    <main>
      <h1>my-app</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void notes.invoke({ word });
        }}
      >
        <label>
          Word <input value={word} onChange={(event) => setWord(event.target.value)} />
        </label>
        <button disabled={notes.status === "loading"}>Find</button>
        {notes.status === "loading" && (
          <button type="button" onClick={notes.cancel}>
            Cancel
          </button>
        )}
      </form>
      {notes.status === "error" && <p role="alert">{notes.error?.message}</p>}
      <ul>
        {notes.data?.map((note) => (
          <li key={note.id}>{note.text}</li>
        ))}
      </ul>
    </main>
  );
}
