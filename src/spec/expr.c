/* SPDX-License-Identifier: MIT */
/* Reading expressions: a tokenizer and precedence climbing. */
#include "spec/expr.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

enum { MAX_NESTING = 64, MAX_TEXT = 1024, MAX_SHOWN = 32 };

/* How tightly operators bind; NOT sits between AND and the comparisons. */
enum { BIND_IMPLIES = 1, BIND_OR, BIND_AND, BIND_NOT, BIND_COMPARE, BIND_SUM, BIND_PRODUCT };

struct binary {
  const char *spelling;
  enum kn_expr_op op;
  int bind;
};

static const struct binary binaries[] = {
    {"->", KN_EXPR_IMPLIES, BIND_IMPLIES}, {"or", KN_EXPR_OR, BIND_OR},
    {"and", KN_EXPR_AND, BIND_AND},        {"==", KN_EXPR_EQ, BIND_COMPARE},
    {"!=", KN_EXPR_NE, BIND_COMPARE},      {"<=", KN_EXPR_LE, BIND_COMPARE},
    {">=", KN_EXPR_GE, BIND_COMPARE},      {"<", KN_EXPR_LT, BIND_COMPARE},
    {">", KN_EXPR_GT, BIND_COMPARE},       {"+", KN_EXPR_ADD, BIND_SUM},
    {"-", KN_EXPR_SUB, BIND_SUM},          {"*", KN_EXPR_MUL, BIND_PRODUCT},
    {"/", KN_EXPR_DIV, BIND_PRODUCT},      {"%", KN_EXPR_MOD, BIND_PRODUCT},
};

static const struct {
  const char *name;
  enum kn_expr_op op;
} functions[] = {
    {"ceil_div", KN_EXPR_CEIL_DIV}, {"align", KN_EXPR_ALIGN}, {"min", KN_EXPR_MIN},
    {"max", KN_EXPR_MAX},           {"size", KN_EXPR_SIZE},   {"present", KN_EXPR_PRESENT},
};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

/* What other languages write, and what it is called here. */
static const struct {
  const char *foreign, *ours;
} habits[] = {
    {"&&", "and"}, {"||", "or"}, {"**", "a product"}, {"//", "/"}, {"!", "not"}, {"=", "=="},
};

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_NAME, TOKEN_SYMBOL };

struct token {
  enum token_kind kind;
  const char *start;
  size_t length;
  struct kn_mark mark;
  int64_t number;
};

struct parser {
  struct kn_arena *arena;
  const char *next;     /* what follows the token */
  struct kn_mark place; /* where `next` is */
  struct token token;
  int nesting;
};

/* A subtree and its height, which bounds how deep every later walk recurses. */
struct operand {
  struct kn_expr *expr;
  int height;
};

static kiln_status out_of_memory(void) {
  return kn_fail(KILN_E_MEMORY, "out of memory while reading an expression");
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool token_is(const struct token *token, const char *spelling) {
  return token->length == strlen(spelling) && memcmp(token->start, spelling, token->length) == 0;
}

/* The token as it fits into a message. */
static int shown(const struct token *token) {
  return token->length < MAX_SHOWN ? (int)token->length : MAX_SHOWN;
}

static void advance(struct parser *p, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const bool is_break = *p->next == '\n' || (*p->next == '\r' && p->next[1] != '\n');
    p->place.column = is_break ? 1 : p->place.column + 1;
    p->place.line += is_break;
    p->next++;
  }
}

static kiln_status read_number(struct parser *p) {
  struct token *t = &p->token;
  bool plain = true, fits = true;
  size_t n = 0;

  while (is_word(t->start[n]) || t->start[n] == '.') {
    plain = plain && is_digit(t->start[n]);
    n++;
  }
  if (!plain && (t->start[n - 1] | 0x20) == 'e' && (t->start[n] == '-' || t->start[n] == '+')) {
    for (n++; is_digit(t->start[n]);) n++; /* 1e-5 is shown whole */
  }
  t->length = n;
  t->number = 0;
  for (size_t i = 0; plain && i < n; i++) {
    const int digit = t->start[i] - '0';
    fits = fits && t->number <= (INT64_MAX - digit) / 10;
    if (fits) t->number = t->number * 10 + digit;
  }
  if (!plain || (n > 1 && t->start[0] == '0')) {
    return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                      "'%.*s' is no integer; write decimal digits without a leading zero", shown(t),
                      t->start);
  }
  if (!fits) {
    return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                      "'%.*s' does not fit 64 bits", shown(t), t->start);
  }
  return KILN_OK;
}

static kiln_status unexpected_symbol(const struct token *t) {
  const bool is_printable = *t->start > ' ' && *t->start < 0x7f;
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
    if (strncmp(t->start, habits[i].foreign, strlen(habits[i].foreign)) == 0) {
      return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                        "'%s' is no operator; write %s", habits[i].foreign, habits[i].ours);
    }
  }
  if (!is_printable) {
    return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                      "byte 0x%02x does not belong in an expression", (unsigned char)*t->start);
  }
  return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                    "'%c' does not belong in an expression", *t->start);
}

static kiln_status read_symbol(struct parser *p) {
  static const char *const symbols[] = {"->", "==", "!=", "<=", ">=", "+", "-", "*",
                                        "/",  "%",  "<",  ">",  "(",  ")", ","};
  struct token *t = &p->token;

  if (strncmp(t->start, "**", 2) == 0 || strncmp(t->start, "//", 2) == 0) {
    return unexpected_symbol(t);
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    t->length = strlen(symbols[i]);
    if (strncmp(t->start, symbols[i], t->length) == 0) return KILN_OK;
  }
  return unexpected_symbol(t);
}

static kiln_status next_token(struct parser *p) {
  struct token *t = &p->token;
  kiln_status status = KILN_OK;

  while (*p->next == ' ' || *p->next == '\t' || *p->next == '\n' || *p->next == '\r') advance(p, 1);
  *t = (struct token){.start = p->next, .mark = p->place};
  if (*t->start == '\0') {
    t->kind = TOKEN_END;
  } else if (is_digit(*t->start)) {
    t->kind = TOKEN_NUMBER;
    status = read_number(p);
  } else if (is_word(*t->start)) {
    t->kind = TOKEN_NAME;
    while (is_word(t->start[t->length])) t->length++;
  } else {
    t->kind = TOKEN_SYMBOL;
    status = read_symbol(p);
  }
  if (status == KILN_OK) advance(p, t->length);
  return status;
}

static kiln_status expected(const struct token *t, const char *what) {
  if (t->kind == TOKEN_END) {
    return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                      "the expression ends where %s is expected", what);
  }
  return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                    "'%.*s' stands where %s is expected", shown(t), t->start, what);
}

static kiln_status too_deep(struct kn_mark mark) {
  return kn_fail_at(KILN_E_SPEC, mark.file, mark.line, mark.column,
                    "the expression is nested deeper than %d", MAX_NESTING);
}

static kiln_status take_symbol(struct parser *p, const char *spelling) {
  char what[8] = {'\'', spelling[0], '\''};
  if (p->token.kind != TOKEN_SYMBOL || !token_is(&p->token, spelling)) {
    return expected(&p->token, what);
  }
  return next_token(p);
}

static kiln_status make_node(struct parser *p, enum kn_expr_op op, struct kn_mark mark,
                             struct operand left, struct operand right, struct operand *out) {
  struct kn_expr *expr;
  const int below = left.height > right.height ? left.height : right.height;

  if (below >= MAX_NESTING) return too_deep(mark);
  expr = kn_arena_alloc(p->arena, 1, sizeof *expr);
  if (!expr) return out_of_memory();
  expr->op = op;
  expr->mark = mark;
  expr->left = left.expr;
  expr->right = right.expr;
  *out = (struct operand){expr, below + 1};
  return KILN_OK;
}

static kiln_status make_constant(struct parser *p, struct kn_mark mark, enum kn_value_type type,
                                 int64_t number, struct operand *out) {
  const kiln_status status =
      make_node(p, KN_EXPR_CONSTANT, mark, (struct operand){0}, (struct operand){0}, out);
  if (status == KILN_OK) out->expr->constant = (struct kn_value){.type = type, .number = number};
  return status;
}

/* A node whose name is the token `t`. */
static kiln_status make_named(struct parser *p, enum kn_expr_op op, struct kn_mark mark,
                              const struct token *t, struct operand *out) {
  char *name;
  kiln_status status = make_node(p, op, mark, (struct operand){0}, (struct operand){0}, out);
  if (status != KILN_OK) return status;
  name = kn_arena_strndup(p->arena, t->start, t->length);
  if (!name) return out_of_memory();
  out->expr->name = name;
  return KILN_OK;
}

static kiln_status parse_binary(struct parser *p, int bind, struct operand *out);

static kiln_status unknown_function(const struct token *t) {
  const char *names[NUM_FUNCTIONS];
  char name[MAX_SHOWN + 1] = {0};
  const char *near;

  memcpy(name, t->start, (size_t)shown(t));
  for (size_t i = 0; i < NUM_FUNCTIONS; i++) names[i] = functions[i].name;
  near = kn_did_you_mean(name, names, NUM_FUNCTIONS);
  return kn_fail_at(KILN_E_SPEC, t->mark.file, t->mark.line, t->mark.column,
                    "there is no function '%s'%s%s%s; functions are ceil_div, align, min, max, "
                    "size and present",
                    name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* `function` is the token before the parenthesis that is the current token. */
static kiln_status parse_call(struct parser *p, const struct token *function, struct operand *out) {
  struct operand left = {0}, right = {0};
  struct token name;
  kiln_status status;
  size_t i = 0;

  while (i < NUM_FUNCTIONS && !token_is(function, functions[i].name)) i++;
  if (i == NUM_FUNCTIONS) return unknown_function(function);

  status = next_token(p);
  if (status != KILN_OK) return status;
  if (functions[i].op == KN_EXPR_SIZE || functions[i].op == KN_EXPR_PRESENT) {
    const bool is_size = functions[i].op == KN_EXPR_SIZE;
    name = p->token;
    if (name.kind != TOKEN_NAME) {
      return expected(&name, is_size ? "a dtype or a tensor" : "a tensor or scalar");
    }
    status = next_token(p);
    if (status == KILN_OK) status = take_symbol(p, ")");
    if (status == KILN_OK) status = make_named(p, functions[i].op, name.mark, &name, out);
    return status;
  }
  status = parse_binary(p, BIND_IMPLIES, &left);
  if (status == KILN_OK) status = take_symbol(p, ",");
  if (status == KILN_OK) status = parse_binary(p, BIND_IMPLIES, &right);
  if (status == KILN_OK) status = take_symbol(p, ")");
  if (status == KILN_OK) status = make_node(p, functions[i].op, function->mark, left, right, out);
  return status;
}

static kiln_status parse_name(struct parser *p, struct operand *out) {
  const struct token t = p->token;
  char name[16] = {0};
  kiln_dtype dtype = KILN_DTYPE_NONE;
  kiln_status status;

  if (token_is(&t, "and") || token_is(&t, "or") || token_is(&t, "not")) {
    return expected(&t, "a value");
  }
  status = next_token(p);
  if (status != KILN_OK) return status;
  if (p->token.kind == TOKEN_SYMBOL && token_is(&p->token, "(")) return parse_call(p, &t, out);

  for (size_t i = 0; i < NUM_FUNCTIONS; i++) {
    if (token_is(&t, functions[i].name)) {
      return kn_fail_at(KILN_E_SPEC, t.mark.file, t.mark.line, t.mark.column,
                        "'%s' is a function and needs its arguments in parentheses",
                        functions[i].name);
    }
  }
  if (token_is(&t, "true") || token_is(&t, "false")) {
    return make_constant(p, t.mark, KN_VALUE_BOOL, token_is(&t, "true"), out);
  }
  if (t.length < sizeof name) {
    memcpy(name, t.start, t.length);
    dtype = kn_dtype_parse(name);
  }
  if (dtype != KILN_DTYPE_NONE) return make_constant(p, t.mark, KN_VALUE_DTYPE, dtype, out);
  return make_named(p, KN_EXPR_NAME, t.mark, &t, out);
}

static kiln_status parse_primary(struct parser *p, struct operand *out) {
  const struct token t = p->token;
  kiln_status status;

  if (t.kind == TOKEN_NAME) return parse_name(p, out);
  if (t.kind == TOKEN_NUMBER) {
    status = make_constant(p, t.mark, KN_VALUE_INT, t.number, out);
    return status == KILN_OK ? next_token(p) : status;
  }
  if (t.kind != TOKEN_SYMBOL || !token_is(&t, "(")) return expected(&t, "a value");
  status = next_token(p);
  if (status == KILN_OK) status = parse_binary(p, BIND_IMPLIES, out);
  if (status == KILN_OK) status = take_symbol(p, ")");
  return status;
}

static kiln_status parse_unary(struct parser *p, struct operand *out) {
  const struct kn_mark mark = p->token.mark;
  struct operand inner = {0};
  kiln_status status;

  if (p->nesting >= MAX_NESTING) return too_deep(mark);
  if (p->token.kind != TOKEN_SYMBOL || !token_is(&p->token, "-")) {
    p->nesting++;
    status = parse_primary(p, out);
    p->nesting--;
    return status;
  }
  status = next_token(p);
  if (status != KILN_OK) return status;
  p->nesting++;
  status = parse_unary(p, &inner);
  p->nesting--;
  if (status != KILN_OK || !inner.expr) return status;
  if (inner.expr->op == KN_EXPR_CONSTANT && inner.expr->constant.type == KN_VALUE_INT) {
    inner.expr->constant.number = -inner.expr->constant.number; /* never INT64_MIN before */
    inner.expr->mark = mark;
    *out = inner;
    return KILN_OK;
  }
  return make_node(p, KN_EXPR_NEGATE, mark, inner, (struct operand){0}, out);
}

static kiln_status parse_not(struct parser *p, struct operand *out) {
  const struct kn_mark mark = p->token.mark;
  struct operand inner = {0};
  kiln_status status;

  if (p->nesting >= MAX_NESTING) return too_deep(mark);
  status = next_token(p);
  if (status != KILN_OK) return status;
  p->nesting++;
  status = parse_binary(p, BIND_NOT, &inner);
  p->nesting--;
  if (status == KILN_OK) {
    status = make_node(p, KN_EXPR_NOT, mark, inner, (struct operand){0}, out);
  }
  return status;
}

static const struct binary *find_binary(const struct token *t) {
  if (t->kind != TOKEN_SYMBOL && t->kind != TOKEN_NAME) return NULL;
  for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
    if (token_is(t, binaries[i].spelling)) return &binaries[i];
  }
  return NULL;
}

/* Operators that bind at least as tightly as `bind`. */
static kiln_status parse_binary(struct parser *p, int bind, struct operand *out) {
  const bool is_not = p->token.kind == TOKEN_NAME && token_is(&p->token, "not");
  struct operand left = {0};
  kiln_status status = is_not && bind <= BIND_NOT ? parse_not(p, &left) : parse_unary(p, &left);
  bool compared = false;

  while (status == KILN_OK) {
    const struct kn_mark mark = p->token.mark;
    const struct binary *binary = find_binary(&p->token);
    struct operand right = {0};

    if (!binary || binary->bind < bind) break;
    if (compared && binary->bind == BIND_COMPARE) {
      return kn_fail_at(KILN_E_SPEC, mark.file, mark.line, mark.column,
                        "comparisons do not chain; join two with 'and'");
    }
    compared = binary->bind == BIND_COMPARE;
    if (p->nesting >= MAX_NESTING) return too_deep(mark);
    status = next_token(p);
    if (status != KILN_OK) break;
    p->nesting += binary->op == KN_EXPR_IMPLIES; /* associates to the right */
    status =
        parse_binary(p, binary->op == KN_EXPR_IMPLIES ? BIND_IMPLIES : binary->bind + 1, &right);
    p->nesting -= binary->op == KN_EXPR_IMPLIES;
    if (status == KILN_OK) status = make_node(p, binary->op, mark, left, right, &left);
  }
  if (status == KILN_OK) *out = left;
  return status;
}

/* The text on one line, for messages. */
static char *one_line(struct kn_arena *arena, const char *text) {
  char *line = kn_arena_alloc(arena, strlen(text) + 1, 1);
  size_t length = 0;
  if (!line) return NULL;
  for (; *text; text++) {
    const bool is_space = *text == ' ' || *text == '\t' || *text == '\n' || *text == '\r';
    if (!is_space) {
      line[length++] = *text;
    } else if (length > 0 && line[length - 1] != ' ') {
      line[length++] = ' ';
    }
  }
  if (length > 0 && line[length - 1] == ' ') line[length - 1] = '\0';
  return line;
}

kiln_status kn_expr_parse(struct kn_arena *arena, const char *text, struct kn_mark mark,
                          const struct kn_expr **out) {
  struct parser p = {.arena = arena, .next = text, .place = mark};
  struct operand root = {0};
  kiln_status status;

  if (strlen(text) > MAX_TEXT) {
    return kn_fail_at(KILN_E_SPEC, mark.file, mark.line, mark.column,
                      "the expression has more than %d bytes", MAX_TEXT);
  }
  status = next_token(&p);
  if (status != KILN_OK) return status;
  status = parse_binary(&p, BIND_IMPLIES, &root);
  if (status != KILN_OK || !root.expr) return status;
  if (p.token.kind != TOKEN_END) return expected(&p.token, "an operator or the end");
  root.expr->text = one_line(arena, text);
  if (!root.expr->text) return out_of_memory();
  *out = root.expr;
  return KILN_OK;
}
