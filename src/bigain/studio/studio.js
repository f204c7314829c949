// What happens on the page itself: the theme, drawing, tokens that light up, and swiping.
window.studio = (() => {
  const pads = {};

  // light or dark, as the system says or as chosen here
  const theme = (button) => button?.addEventListener("click", () => document.body.classList.toggle("dark"));

  // an area to draw in, white on black
  const pad = (element) => {
    const canvas = element.querySelector("canvas");
    if (!canvas) return;
    const pen = canvas.getContext("2d");
    const state = { canvas, drawn: false };
    const clear = () => {
      pen.fillStyle = "black";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      state.drawn = false;
    };
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
    };
    Object.assign(pen, { lineWidth: 18, lineCap: "round", lineJoin: "round" });
    clear();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      state.at = place(event);
      move(event);
    });
    const move = (event) => {
      if (!state.at) return;
      pen.strokeStyle = "white";
      pen.beginPath();
      pen.moveTo(...state.at);
      state.at = place(event);
      pen.lineTo(...state.at);
      pen.stroke();
      state.drawn = true;
    };
    canvas.addEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (state.at = null));
    element.querySelector(".clear").addEventListener("click", clear);
    pads[element.closest("[id^=pad-]")?.id] = state;
  };
  const drawing = (id) => (pads[id]?.drawn ? pads[id].canvas.toDataURL("image/png") : "");

  // a token's group lights up
  const light = (token) => {
    const map = token.closest("svg.tokens");
    const all = [...map.querySelectorAll("[data-group]")];
    const group = all.filter((other) => other.dataset.group === token.dataset.group);
    const into = Number(token.dataset.into);
    map.classList.add("lit");
    for (const other of all) other.classList.toggle("on", other.dataset.group === token.dataset.group);
    for (const other of all) other.classList.toggle("here", other === token);
    all[into].classList.add("into");
    for (const other of all) if (other !== all[into]) other.classList.remove("into");
    const width = Number(map.dataset.width);
    const name = (number) => `row ${Math.floor(number / width) + 1}, column ${(number % width) + 1}`;
    const at = all.indexOf(token);
    const words = map.closest("figure").querySelector(".token-words");
    const others = group.length - 1;
    if (!map.dataset.merges) words.textContent = others ? `The ${group.length} tokens around ${name(at)} share one key.` : `The token at ${name(at)}.`;
    else if (!others) words.textContent = `The token at ${name(at)} stays on its own.`;
    else if (into === at) words.textContent = `The token at ${name(at)} stands for itself and ${others} more.`;
    else words.textContent = `The token at ${name(at)} is in a group of ${group.length}; the one at ${name(into)} stands for it.`;
    map.dataset.at = at;
  };
  const dark = (map) => {
    map.classList.remove("lit");
    for (const other of map.querySelectorAll(".on, .here, .into")) other.classList.remove("on", "here", "into");
  };
  document.addEventListener("pointerover", (event) => {
    const token = event.target.closest?.("svg.tokens [data-group]");
    if (token) light(token);
  });
  document.addEventListener("pointerout", (event) => {
    const map = event.target.closest?.("svg.tokens");
    if (map && !map.contains(event.relatedTarget)) dark(map);
  });
  document.addEventListener("keydown", (event) => {
    const map = event.target.closest?.("svg.tokens");
    const width = Number(map?.dataset.width);
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
    if (!map || !(event.key in moves)) return;
    event.preventDefault();
    const all = map.querySelectorAll("[data-group]");
    const next = map.dataset.at === undefined ? 0 : Number(map.dataset.at) + moves[event.key];
    if (all[next]) light(all[next]);
  });

  // on narrow screens answers stand above what asks for them
  document.addEventListener("click", (event) => {
    const asks = event.target.closest?.("[data-sample], #start-race, #start-generate, .points .mark");
    if (!asks || innerWidth > 736) return;
    const answer = asks.matches(".mark") ? document.querySelector("#point") : asks.closest(".sides")?.lastElementChild;
    answer?.scrollIntoView({ behavior: "smooth", block: "start" });
  });

  // the slider over two images
  document.addEventListener("input", (event) => {
    const frame = event.target.closest?.(".swipe");
    if (frame) frame.style.setProperty("--at", `${event.target.value}%`);
  });

  return { theme, pad, drawing };
})();
