/* IMP, a small language: integers, texts and arrays, functions, `if`, `while`, and `print`.
 *
 *     fn fib(n) { if n < 2 { return n; } return fib(n - 1) + fib(n - 2); }
 *     let i = 0;
 *     while i < 10 { print fib(i); i = i + 1; }
 *
 * A program is parsed into a tree, which is walked. Every error names its line.
 */
#include <berm/berm.h>
#include <string.h>

/* ---- values ---- */

typedef enum value_kind { INTEGER, TEXT, ARRAY } value_kind;

typedef struct value {
    value_kind kind;
    int64_t integer;
    berm_str text;
    struct array *array;
} value;

typedef struct array {
    value *items;
    size_t len, cap;
} array;

static int line; /* of what is being parsed or run */

static value integer_value(int64_t n)
{
    value v;
    memset(&v, 0, sizeof v);
    v.integer = n;
    return v;
}

static value text_value(berm_str text)
{
    value v = integer_value(0);
    v.kind = TEXT;
    v.text = text;
    return v;
}

BERM_NORETURN static void wrong(const char *what, berm_str about)
{
    berm_fail("line %d: %s%s%.*s%s", line, what, about.len ? " `" : "", BERM_ARG(about), about.len ? "`" : "");
}

static void put_value(berm_out *out, value v)
{
    if (v.kind == INTEGER) {
        berm_printf(out, "%lld", (long long)v.integer);
    } else if (v.kind == TEXT) {
        berm_put(out, v.text);
    } else {
        berm_putc(out, '[');
        for (size_t i = 0; i < v.array->len; i++) {
            berm_puts(out, i ? ", " : "");
            put_value(out, v.array->items[i]);
        }
        berm_putc(out, ']');
    }
}

static bool is_true(value v)
{
    return v.kind == INTEGER ? v.integer != 0 : v.kind == TEXT ? v.text.len != 0 : v.array->len != 0;
}

/* ---- the tree ---- */

typedef enum node_kind {
    NUMBER, STRING, NAME, LIST, CALL, INDEX, UNARY, BINARY,
    LET, ASSIGN, PRINT, IF, WHILE, RETURN, BLOCK, EVALUATE,
} node_kind;

typedef struct node {
    node_kind kind;
    int line;
    char op;                             /* an operator, or its first letter and '=' as 'l' 'g' 'e' 'n' */
    value literal;
    berm_str name;
    struct node *a, *b, *c;              /* operands; condition, body, else */
    struct node *next;                   /* the next in a list of statements or arguments */
} node;

typedef struct function {
    berm_str name;
    berm_str parameters[8];
    size_t count;
    node *body;
    struct function *next;
} function;

static function *functions;

static node *make(node_kind kind, node *a, node *b)
{
    node *n = BERM_NEW(node);
    n->kind = kind;
    n->line = line;
    n->a = a;
    n->b = b;
    return n;
}

/* ---- words ---- */

static berm_str source;
static berm_str word; /* the word ahead; empty at the end */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t word_length(void)
{
    size_t n = 1;
    char c = source.ptr[0];
    if (is_letter(c) || is_digit(c)) {
        while (n < source.len && (is_letter(source.ptr[n]) || is_digit(source.ptr[n])))
            n++;
    } else if (c == '"') {
        while (n < source.len && source.ptr[n] != '"' && source.ptr[n] != '\n')
            n++;
        if (n == source.len || source.ptr[n] != '"')
            wrong("a text does not end", BERM_STR(""));
        n++;
    } else if (n < source.len && source.ptr[1] == '=' && memchr("<>=!", c, 4)) {
        n = 2;
    }
    return n;
}

static void advance(void)
{
    while (source.len && (source.ptr[0] == ' ' || source.ptr[0] == '\n' || source.ptr[0] == '\t')) {
        line += source.ptr[0] == '\n';
        source = berm_slice(source, 1, source.len);
    }
    size_t n = source.len ? word_length() : 0;
    word = berm_slice(source, 0, n);
    source = berm_slice(source, n, source.len);
}

static bool accept(const char *wanted)
{
    if (!berm_is(word, wanted))
        return false;
    advance();
    return true;
}

static void expect(const char *wanted)
{
    if (!accept(wanted))
        berm_fail("line %d: expected `%s`, got `%.*s`", line, wanted, BERM_ARG(word));
}

static berm_str take_name(void)
{
    berm_str name = word;
    if (!word.len || !is_letter(word.ptr[0]))
        wrong("expected a name, got", word);
    advance();
    return name;
}

/* ---- parsing ---- */

static int depth;
static node *parse_expression(int lowest);

static node *parse_list(const char *close)
{
    node *first = NULL;
    node **end = &first;
    while (!accept(close)) {
        if (first)
            expect(",");
        *end = parse_expression(0);
        end = &(*end)->next;
    }
    return first;
}

static node *parse_primary(void)
{
    node *n;
    if (accept("(")) {
        n = parse_expression(0);
        expect(")");
    } else if (accept("[")) {
        n = make(LIST, parse_list("]"), NULL);
    } else if (accept("-")) {
        n = make(UNARY, parse_primary(), NULL);
        n->op = '-';
    } else if (accept("!")) {
        n = make(UNARY, parse_primary(), NULL);
        n->op = '!';
    } else if (word.len && is_digit(word.ptr[0])) {
        n = make(NUMBER, NULL, NULL);
        if (!berm_parse_int(word, &n->literal.integer))
            wrong("no number:", word);
        advance();
    } else if (word.len && word.ptr[0] == '"') {
        n = make(STRING, NULL, NULL);
        n->literal = text_value(berm_slice(word, 1, word.len - 1));
        advance();
    } else {
        n = make(NAME, NULL, NULL);
        n->name = take_name();
        if (accept("(")) {
            n->kind = CALL;
            n->a = parse_list(")");
        }
    }
    while (accept("[")) {
        n = make(INDEX, n, parse_expression(0));
        expect("]");
    }
    return n;
}

static const struct {
    const char *word;
    int level;
    char op;
} OPERATORS[] = {{"|", 1, '|'},  {"&", 2, '&'},  {"==", 3, 'e'}, {"!=", 3, 'n'}, {"<", 4, '<'}, {"<=", 4, 'l'},
                 {">", 4, '>'},  {">=", 4, 'g'}, {"+", 5, '+'},  {"-", 5, '-'},  {"*", 6, '*'}, {"/", 6, '/'},
                 {"%", 6, '%'}};

static node *parse_expression(int lowest)
{
    if (++depth > 200)
        wrong("nested too deeply", BERM_STR(""));
    node *left = parse_primary();
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
        if (OPERATORS[i].level <= lowest || !accept(OPERATORS[i].word))
            continue;
        left = make(BINARY, left, parse_expression(OPERATORS[i].level));
        left->op = OPERATORS[i].op;
        i = (size_t)-1;
    }
    depth--;
    return left;
}

static node *parse_block(void);

static node *parse_if(void)
{
    node *n = make(IF, parse_expression(0), NULL);
    n->b = parse_block();
    if (accept("else"))
        n->c = accept("if") ? parse_if() : parse_block();
    return n;
}

static node *parse_statement(void)
{
    node *n;
    if (accept("if"))
        return parse_if();
    if (accept("while")) {
        n = make(WHILE, parse_expression(0), NULL);
        n->b = parse_block();
        return n;
    }
    if (accept("let")) {
        n = make(LET, NULL, NULL);
        n->name = take_name();
        expect("=");
        n->a = parse_expression(0);
    } else if (accept("print")) {
        n = make(PRINT, parse_expression(0), NULL);
    } else if (accept("return")) {
        n = make(RETURN, parse_expression(0), NULL);
    } else {
        n = make(EVALUATE, parse_expression(0), NULL);
        if (accept("=")) {
            n->kind = ASSIGN;
            n->b = parse_expression(0);
        }
    }
    expect(";");
    return n;
}

static node *parse_block(void)
{
    node *block = make(BLOCK, NULL, NULL);
    node **end = &block->a;
    if (++depth > 200)
        wrong("nested too deeply", BERM_STR(""));
    expect("{");
    while (!accept("}")) {
        *end = parse_statement();
        end = &(*end)->next;
    }
    depth--;
    return block;
}

static void parse_function(void)
{
    function *f = BERM_NEW(function);
    f->name = take_name();
    expect("(");
    while (!accept(")")) {
        if (f->count)
            expect(",");
        if (f->count == 8)
            wrong("more than 8 parameters", BERM_STR(""));
        f->parameters[f->count++] = take_name();
    }
    f->body = parse_block();
    f->next = functions;
    functions = f;
}

/* ---- running ---- */

typedef struct variable {
    berm_str name;
    value value;
    struct variable *next;
} variable;

typedef struct frame {
    variable *variables;
    bool returned;
    value result;
    int depth;
} frame;

static berm_out *output;

static value evaluate(frame *f, node *n);
static void run(frame *f, node *n);

static variable *find(frame *f, berm_str name)
{
    for (variable *v = f->variables; v; v = v->next)
        if (berm_equal(v->name, name))
            return v;
    return NULL;
}

static void define(frame *f, berm_str name, value v)
{
    variable *added = BERM_NEW(variable);
    added->name = name;
    added->value = v;
    added->next = f->variables;
    f->variables = added;
}

static void push(array *a, value v)
{
    if (a->len == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 4;
        a->items = (value *)berm_realloc(a->items, a->cap, sizeof *a->items);
    }
    a->items[a->len++] = v;
}

static int64_t need_integer(value v)
{
    if (v.kind != INTEGER)
        wrong("expected an integer", BERM_STR(""));
    return v.integer;
}

static value *element(value base, value index)
{
    int64_t at = need_integer(index);
    if (base.kind != ARRAY)
        wrong("only an array has elements", BERM_STR(""));
    if (at < 0 || (uint64_t)at >= base.array->len)
        berm_fail("line %d: index %lld of %zu elements", line, (long long)at, base.array->len);
    return &base.array->items[at];
}

static value call(frame *caller, node *n)
{
    frame inner;
    size_t count = 0;
    function *f = functions;
    memset(&inner, 0, sizeof inner);
    inner.depth = caller->depth + 1;
    if (inner.depth > 500)
        wrong("too many calls at once:", n->name);
    while (f && !berm_equal(f->name, n->name))
        f = f->next;
    if (!f)
        wrong("no such function:", n->name);
    for (node *a = n->a; a; a = a->next, count++)
        if (count < f->count)
            define(&inner, f->parameters[count], evaluate(caller, a));
    if (count != f->count)
        berm_fail("line %d: `%.*s` takes %zu arguments, got %zu", n->line, BERM_ARG(n->name), f->count, count);
    run(&inner, f->body);
    return inner.result;
}

static value call_built_in(frame *f, node *n)
{
    if (berm_is(n->name, "len") && n->a) {
        value v = evaluate(f, n->a);
        return integer_value(v.kind == TEXT ? (int64_t)v.text.len : v.kind == ARRAY ? (int64_t)v.array->len : 0);
    }
    if (berm_is(n->name, "push") && n->a && n->a->next) {
        value v = evaluate(f, n->a);
        if (v.kind != ARRAY)
            wrong("push needs an array", BERM_STR(""));
        push(v.array, evaluate(f, n->a->next));
        return v;
    }
    return call(f, n);
}

static value concatenate(value a, value b)
{
    berm_out text;
    berm_out_init(&text, (size_t)1 << 20);
    put_value(&text, a);
    put_value(&text, b);
    return text_value(berm_out_str(&text));
}

static int order_of(value a, value b)
{
    if (a.kind == TEXT && b.kind == TEXT)
        return berm_compare(a.text, b.text);
    int64_t x = need_integer(a), y = need_integer(b);
    return x < y ? -1 : x > y;
}

static value arithmetic(char op, int64_t a, int64_t b)
{
    if ((op == '/' || op == '%') && b == 0)
        wrong("division by zero", BERM_STR(""));
    if ((op == '/' || op == '%') && b == -1)
        return integer_value(op == '/' ? (int64_t)(0 - (uint64_t)a) : 0);
    switch (op) {
    case '+': return integer_value((int64_t)((uint64_t)a + (uint64_t)b));
    case '-': return integer_value((int64_t)((uint64_t)a - (uint64_t)b));
    case '*': return integer_value((int64_t)((uint64_t)a * (uint64_t)b));
    case '/': return integer_value(a / b);
    default: return integer_value(a % b);
    }
}

static value binary(frame *f, node *n)
{
    value a = evaluate(f, n->a);
    if (n->op == '&' || n->op == '|')
        return is_true(a) == (n->op == '|') ? a : evaluate(f, n->b);
    value b = evaluate(f, n->b);
    line = n->line;
    switch (n->op) {
    case 'e': return integer_value(order_of(a, b) == 0);
    case 'n': return integer_value(order_of(a, b) != 0);
    case '<': return integer_value(order_of(a, b) < 0);
    case 'l': return integer_value(order_of(a, b) <= 0);
    case '>': return integer_value(order_of(a, b) > 0);
    case 'g': return integer_value(order_of(a, b) >= 0);
    case '+':
        if (a.kind == TEXT || b.kind == TEXT)
            return concatenate(a, b);
        /* fall through */
    default: return arithmetic(n->op, need_integer(a), need_integer(b));
    }
}

static value evaluate(frame *f, node *n)
{
    variable *v;
    value made;
    line = n->line;
    switch (n->kind) {
    case NUMBER:
    case STRING: return n->literal;
    case NAME:
        v = find(f, n->name);
        if (!v)
            wrong("no such variable:", n->name);
        return v->value;
    case LIST:
        made = integer_value(0);
        made.kind = ARRAY;
        made.array = BERM_NEW(array);
        for (node *a = n->a; a; a = a->next)
            push(made.array, evaluate(f, a));
        return made;
    case CALL: return call_built_in(f, n);
    case INDEX: {
        value base = evaluate(f, n->a);
        return *element(base, evaluate(f, n->b));
    }
    case UNARY: {
        value a = evaluate(f, n->a);
        return integer_value(n->op == '-' ? (int64_t)(0 - (uint64_t)need_integer(a)) : !is_true(a));
    }
    default: return binary(f, n);
    }
}

static void assign(frame *f, node *n)
{
    value v = evaluate(f, n->b);
    if (n->a->kind == INDEX) {
        value base = evaluate(f, n->a->a);
        *element(base, evaluate(f, n->a->b)) = v;
        return;
    }
    variable *target = n->a->kind == NAME ? find(f, n->a->name) : NULL;
    if (!target)
        wrong("cannot assign to this", n->a->name);
    target->value = v;
}

static void run(frame *f, node *n)
{
    line = n->line;
    switch (n->kind) {
    case LET: define(f, n->name, evaluate(f, n->a)); break;
    case ASSIGN: assign(f, n); break;
    case PRINT:
        put_value(output, evaluate(f, n->a));
        berm_putc(output, '\n');
        break;
    case IF:
        if (is_true(evaluate(f, n->a)))
            run(f, n->b);
        else if (n->c)
            run(f, n->c);
        break;
    case WHILE:
        while (!f->returned && is_true(evaluate(f, n->a)))
            run(f, n->b);
        break;
    case RETURN:
        f->result = evaluate(f, n->a);
        f->returned = true;
        break;
    case BLOCK:
        for (node *s = n->a; s && !f->returned; s = s->next)
            run(f, s);
        break;
    default: evaluate(f, n->a);
    }
}

BERM_TOOL(imp, "Run a program in IMP and show what it prints.", required(string, program, "its source"))
{
    frame top;
    node *program = NULL;
    node **end = &program;
    memset(&top, 0, sizeof top);
    source = args->program;
    output = out;
    line = 1;
    advance();
    while (word.len) {
        if (accept("fn")) {
            parse_function();
            continue;
        }
        *end = parse_statement();
        end = &(*end)->next;
    }
    for (; program && !top.returned; program = program->next)
        run(&top, program);
}
