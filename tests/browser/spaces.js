// A rule for eslint: spaces that get lost. htm drops a line break beside a text, so a text that a
// line break parts from a value is shown without a space: "3moved". There the space has to be
// written, as ${" "}.

/** Elements that flow with the text around them. */
const INLINE = new Set(["a", "b", "code", "i", "small", "span", "time"]);
const HOLE = "\uE000";
const PIECE = /<(\/?)([\w-]*)(?:"[^"]*"|[^">])*>|\uE000|[^<\uE000]+/g;

/** The texts of a template that lose a space. @param {string} template with a mark for each hole */
function losses(template) {
  const pieces = [...template.matchAll(PIECE)].map(([text, isEnd, tag]) => ({
    text,
    // What stands beside a text in the same line: a value, or an inline element.
    opens: text === HOLE || (isEnd === "" && INLINE.has(tag)),
    closes: text === HOLE || (isEnd === "/" && INLINE.has(tag)),
    isText: text !== HOLE && tag === undefined,
  }));
  return pieces
    .filter(({ text, isText }, i) => {
      const [before, after] = [pieces[i - 1], pieces[i + 1]];
      if (!isText) return false;
      // Boxes beside each other have their distance from the style; words in bold do not.
      if (!text.trim())
        return text.includes("\n") && /^<\/(b|code)>$/.test(before?.text) && after?.opens;
      return (/^\s*\n/.test(text) && before?.closes) || (/\n\s*$/.test(text) && after?.opens);
    })
    .map(({ text }) => text.trim());
}

export default {
  meta: { messages: { lost: "The space beside {{words}} is lost: write it as ${' '}" } },
  create: (context) => ({
    TaggedTemplateExpression({ tag, quasi }) {
      if (tag.name !== "html") return;
      for (const words of losses(quasi.quasis.map((it) => it.value.cooked).join(HOLE)))
        context.report({ node: quasi, messageId: "lost", data: { words: JSON.stringify(words) } });
    },
  }),
};
