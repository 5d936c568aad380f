// Escapes texts for the HTML that the platform writes itself.

/** The text, escaped for an element or a quoted attribute. */
export function escaped(text: string): string {
  const markup = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return markup.replaceAll('"', "&quot;").replaceAll("'", "&#39;");
}
