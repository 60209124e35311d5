"""The one script: a picture is dropped, pasted or chosen, seen, and asked about without leaving the page.

Without it the form is an ordinary one. It writes no markup of its own: the answer is a part of the page that the server
makes, and messages are set as text.
"""

SCRIPT = """
"use strict";
(() => {
  const form = document.getElementById("ask");
  if (!form) return;
  document.documentElement.classList.add("scripted");
  const drop = form.querySelector(".drop"), input = form.querySelector("input[type=file]");
  const hint = form.querySelector(".hint"), seen = form.querySelector("img"), button = form.querySelector("button");
  const told = document.getElementById("told");
  const most = Number(form.dataset.most);
  let shown = "";

  const say = (text) => { told.textContent = text; told.hidden = !text; };
  const show = () => {
    const file = input.files[0];
    if (shown) URL.revokeObjectURL(shown);
    shown = file ? URL.createObjectURL(file) : "";
    seen.hidden = !file;
    hint.hidden = Boolean(file);
    if (file) seen.src = shown;
    button.disabled = !file;
    const large = "This picture has more than " + Math.round(most / 1e6) + " MB: make it smaller.";
    say(file && file.size > most ? large : "");
  };
  const take = (files) => {
    const pictures = [...files].filter((file) => file.type === "image/jpeg" || file.type === "image/png");
    if (!pictures.length) { say("That is not a JPEG or PNG picture."); return; }
    const held = new DataTransfer();
    held.items.add(pictures[0]);
    input.files = held.files;
    show();
  };
  seen.addEventListener("error", () => { seen.hidden = true; hint.hidden = false; });
  input.addEventListener("change", show);
  for (const name of ["dragenter", "dragover"])
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => event.preventDefault());
  addEventListener("paste", (event) => { if (event.clipboardData.files.length) take(event.clipboardData.files); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    button.textContent = "Looking…";
    say("");
    try {
      const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const part = page.getElementById("answer");
      if (part) {
        document.getElementById("answer").replaceWith(part);
        if (matchMedia("(max-width: 760px)").matches) part.scrollIntoView({ behavior: "smooth" });
      } else {
        say((page.querySelector("#problem") || { textContent: "This could not be answered." }).textContent);
      }
    } catch {
      say("The catalogue cannot be reached.");
    }
    button.disabled = false;
    button.textContent = "Find artists";
  });
  show();
})();
"""
