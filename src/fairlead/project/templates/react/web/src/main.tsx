import { createRoot } from "react-dom/client";

import { createClient } from "./client.ts";
import { Notes } from "./Notes.tsx";

const root = document.getElementById("root");
if (root !== null) createRoot(root).render(<Notes client={createClient()} />);
