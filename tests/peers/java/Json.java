import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** How records, partitions and settings look in the JSON lines. Bytes are base64, null is null. */
final class Json {
    private Json() {
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static Properties config(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.get("bootstrap").asText());
        JsonNode config = request.get("config");
        if (config != null) {
            config.fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        }
        return properties;
    }

    static List<String> strings(JsonNode array) {
        List<String> result = new ArrayList<>();
        array.forEach(item -> result.add(item.asText()));
        return result;
    }

    /** A partition is written "topic-index". */
    static TopicPartition partition(String text) {
        int dash = text.lastIndexOf('-');
        return new TopicPartition(
            text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    static Map<String, Object> record(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("partition", record.partition());
        result.put("offset", record.offset());
        result.put("timestamp", record.timestamp());
        result.put("timestamp_type", record.timestampType().toString());
        result.put("key", text(record.key()));
        result.put("value", text(record.value()));
        List<List<String>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        result.put("headers", headers);
        return result;
    }
}
