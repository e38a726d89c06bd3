import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/**
 * Answers JSON lines on standard input: command-line tools (ToolRunner), and the Java producer,
 * consumer and admin client (ClientOperations), its assignors (AssignOperation). See tests/peers/jvm.py for the other end.
 */
public final class PeerServer {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ObjectMapper json = new ObjectMapper();
        ToolRunner tools = new ToolRunner();
        ClientOperations clients = new ClientOperations();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                JsonNode request = json.readTree(line);
                answer.put("result", dispatch(request, tools, clients));
            } catch (Throwable thrown) {
                Throwable cause = thrown;
                while (cause.getCause() != null
                    && (cause instanceof ExecutionException || cause instanceof CompletionException)) {
                    cause = cause.getCause();
                }
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            answers.write(json.writeValueAsBytes(answer));
            answers.write('\n');
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object dispatch(JsonNode request, ToolRunner tools, ClientOperations clients)
        throws Exception {
        String operation = request.get("op").asText();
        if (operation.equals("tool")) {
            JsonNode args = request.get("args");
            String[] list = new String[args.size()];
            for (int i = 0; i < list.length; i++) {
                list[i] = args.get(i).asText();
            }
            return tools.run(request.get("name").asText(), list, request.get("stdin").asText());
        }
        if (operation.equals("assign")) {
            return AssignOperation.run(request.get("cases"));
        }
        return clients.run(operation, request);
    }
}
