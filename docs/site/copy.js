// The copy button of a session in Python copies its code, without prompts and results.
for (const code of document.querySelectorAll(".highlight code:has(.gp)")) {
  const lines = code.innerText.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
  code.closest("pre").dataset.copy = lines.map((line) => line.slice(4)).join("\n");
}
